"""The leader's pauses before it claims the right to write again."""

from __future__ import annotations

from fencepost.herder.distributed.leadership import claim_pause_s


def test_a_leader_whose_writes_fail_claims_the_privilege_ever_more_rarely():
    assert [claim_pause_s(failures) for failures in range(9)] == [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert claim_pause_s(10_000) == 10.0
