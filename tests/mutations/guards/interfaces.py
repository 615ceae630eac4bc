"""Guards where others come in: what plugins, properties, requests and files may do, and what they are shown."""

from __future__ import annotations

from tests.mutations.guard import Guard

GUARDS = (
    Guard(
        "the look at where a module comes from before it is imported",
        "config/plugins.py",
        "    if not sources.admit(module_name):",
        "    if False:",
        "tests/unit/config/test_plugin_sources.py::test_a_worker_of_a_group_does_not_import_what_is_only_importable",
    ),
    Guard(
        "the paths that connectors of files keep to",
        "api/allowed_paths.py",
        "            if target.is_relative_to(root):",
        "            if True:",
        "tests/unit/connectors/test_allowed_files.py",
    ),
    Guard(
        "the links that are not followed when a file is opened",
        "api/allowed_paths.py",
        "_NO_LINK: Final = os.O_NOFOLLOW | os.O_CLOEXEC",
        "_NO_LINK: Final = os.O_CLOEXEC",
        "tests/unit/api/test_allowed_paths.py::test_a_link_that_is_put_in_between_check_and_open_leads_nowhere",
    ),
    Guard(
        "the worker's credentials that stay with its own brokers",
        "config/client_overrides.py",
        "    if not changed or _CREDENTIALS not in worker:",
        "    if True:",
        "tests/unit/runtime/connector/test_client_properties.py::test_the_workers_credentials_go_only_where_the_worker_sends_them",
    ),
    Guard(
        "the brokers that connectors may not choose",
        "config/client_overrides.py",
        '    "acks", "batch.size",',
        '    "bootstrap.servers", "acks", "batch.size",',
        "tests/unit/config/test_worker_config.py::"
        "test_k9_without_a_policy_connectors_tune_clients_and_choose_no_brokers",
    ),
    Guard(
        "the loopback that is listened on without passwords",
        "config/rest_config.py",
        "usual = [_LOOPBACK if loopback else EVERYWHERE]",
        "usual = [EVERYWHERE]",
        "tests/unit/config/test_rest_config.py::"
        "test_without_passwords_a_worker_listens_on_port_8083_of_the_loopback_by_default",
    ),
    Guard(
        "the content type of bodies",
        "rest/requests.py",
        "if content and (hdrs.CONTENT_TYPE not in request.headers or request.content_type != JSON):",
        "if False:",
        "tests/unit/rest/test_server.py::test_a_body_must_say_that_it_is_json",
    ),
    Guard(
        "the links in a directory that a config provider does not follow",
        "config/config_providers.py",
        "with self._allowed.open(str(path)) as file:",
        "with ANYWHERE.open(str(path)) as file:",
        "tests/unit/config/test_config_providers.py::test_a_link_in_a_directory_does_not_lead_out_of_the_allowed_paths",
    ),
    Guard(
        "the control characters that are escaped",
        "api/texts.py",
        "line if line.isprintable() else _escaped(line)",
        "line",
        "tests/unit/api/test_traces.py::test_control_characters_of_an_error_are_shown_escaped",
    ),
    Guard(
        "the depth of JSON that strangers wrote",
        "api/foreign_json.py",
        "    except RecursionError:",
        "    except MemoryError:",
        "tests/unit/storage/test_deep_json.py",
    ),
    Guard(
        "the passwords that are left out of traces",
        "api/traces.py",
        'SECRETS.hidden("".join(shown.format()))',
        '"".join(shown.format())',
        "tests/unit/api/test_traces.py::test_no_part_of_a_secret_stays_where_a_text_is_cut",
    ),
    Guard(
        "the passwords that are hidden before a message is cut",
        "api/errors.py",
        "SECRETS.hidden(_text(error))",
        "_text(error)",
        "tests/unit/api/test_traces.py::test_no_part_of_a_secret_stays_where_a_text_is_cut",
    ),
    Guard(
        "the passwords of which a cut left a part",
        "api/secrets.py",
        "return self._without_halves(hidden) if",
        "return hidden if",
        "tests/unit/api/test_secrets.py::test_the_rest_of_a_value_beside_a_cut_is_hidden",
    ),
    Guard(
        "the passwords that are left out of what --traceback shows",
        "cli/main.py",
        "click.echo(format_trace(error), nl=False, err=True)",
        "raise error",
        "tests/unit/cli/test_main.py::test_an_expected_failure_has_no_passwords",
    ),
    Guard(
        "the file descriptors that are kept for requests",
        "rest/accept_failures.py",
        "    def _failed(self) -> None:\n        self._release()\n",
        "    def _failed(self) -> None:\n",
        "tests/unit/rest/test_accept_failures.py::test_connections_are_accepted_when_all_other_files_are_open",
    ),
    Guard(
        "the refusal of requests from pages of other sites",
        "rest/cross_origin.py",
        '    if not is_own(origin, request.headers.get(hdrs.HOST, ""), own):\n',
        "    if False:\n",
        "tests/unit/rest/test_cross_origin.py::test_a_page_of_another_site_restarts_and_deletes_nothing",
    ),
    Guard(
        "the refusal of what pages of other sites embed",
        "rest/cross_origin.py",
        "            _check_site(request, config)\n",
        "            pass\n",
        "tests/unit/rest/test_cross_origin.py::test_a_request_for_what_a_page_embeds_is_refused",
    ),
    Guard(
        "the hosts that a loopback listener takes",
        "rest/cross_origin.py",
        "        _check_host(request, config, own)\n",
        "",
        "tests/unit/rest/test_cross_origin.py::test_a_loopback_listener_takes_only_known_hosts",
    ),
)
