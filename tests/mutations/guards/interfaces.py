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
        "the worker's own files that are not read, by any name",
        "api/allowed_paths.py",
        "            self.own.check(path, os.fstat(descriptor), before)\n",
        "            pass\n",
        "tests/unit/api/test_allowed_paths.py::test_the_workers_own_file_is_refused_by_any_name",
    ),
    Guard(
        "the rotated secret that was opened before it was replaced",
        "api/own_files.py",
        "in before | self.identities()",
        "in self.identities()",
        "tests/unit/api/test_allowed_paths.py::test_a_file_that_is_replaced_while_it_is_opened_is_refused",
    ),
    Guard(
        "the environment of the worker",
        "api/own_files.py",
        "        if opened.st_dev == _device_of_processes():",
        "        if False:",
        "tests/unit/api/test_allowed_paths.py::test_the_environment_of_the_worker_is_not_read",
    ),
    Guard(
        "the directories of the system that are not read by default",
        "config/file_limits.py",
        "    if of_system or str(directory) in _HOLD_OTHERS:",
        "    if False:",
        "tests/unit/config/test_file_limits.py::test_a_directory_of_the_system_is_not_read_by_default",
    ),
    Guard(
        "the key files that the worker's properties name",
        "config/file_limits.py",
        "        names_file = bool(path) and name.endswith(_NAMING)",
        "        names_file = False",
        "tests/unit/config/test_file_limits.py::test_files_that_the_worker_is_configured_with_are_its_own",
    ),
    Guard(
        "the files that all workers of a group must allow",
        "herder/distributed/group_parts.py",
        "        return self.worker.agreeing(self.other_files)",
        "        return self.worker",
        "tests/cluster/test_files_of_workers.py::test_workers_of_different_directories_agree_on_the_files",
    ),
    Guard(
        "the topics of a check's own",
        "engine/conversion.py",
        "    return Converted(pipeline.destination(topic), ",
        "    return Converted(topic, ",
        "tests/unit/engine/test_destination.py::test_rows_of_any_topic_go_to_the_one_with_the_prefix",
    ),
    Guard(
        "the check's topics that are deleted at its end",
        "testing/conformance/own_topics.py",
        "                admin.delete_topics(*self._all(admin.topic_names()))",
        "                admin.topic_names()",
        "tests/chaos/test_topics_of_checks.py::test_a_fixed_topic_is_written_to_under_another_name[by-brokers]",
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
)
