"""A request for a sync stays open until a sync that began later has done it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.scheduler import MAX_REASONS, OTHER_REASONS, Generations


def test_nothing_asked_is_nothing_to_do():
    assert Generations().due() is None


def test_requests_become_one_sync_with_every_reason_once_and_in_order():
    asked = Generations()
    for reason in ("boot", "search", "boot"):
        asked.ask(reason)
    due = asked.due()
    assert due is not None
    assert due.request.reason == "boot, search"
    assert not due.request.force
    assert not due.request.verify


def test_force_and_verify_of_one_request_hold_for_the_sync_of_all():
    asked = Generations()
    asked.ask("search")
    asked.ask("manual", force=True)
    asked.ask("verify", verify=True)
    asked.ask("manual")
    due = asked.due()
    assert due is not None
    assert due.request.force
    assert due.request.verify


def test_a_settled_sync_leaves_what_was_asked_while_it_ran():
    asked = Generations()
    asked.ask("boot", force=True)
    due = asked.due()
    asked.ask("boot")
    asked.ask("watch")
    asked.settle(due.generation)
    assert asked.due().request.reason == "boot, watch"
    assert not asked.due().request.force


def test_force_that_came_while_a_sync_ran_is_kept():
    asked = Generations()
    asked.ask("watch")
    due = asked.due()
    asked.ask("manual", force=True)
    asked.settle(due.generation)
    assert asked.due().request.reason == "manual"
    assert asked.due().request.force


def test_a_sync_that_failed_settles_nothing():
    asked = Generations()
    asked.ask("manual", force=True)
    asked.due()
    assert asked.due().request.force


REASONS = st.sampled_from(["boot", "watch", "manual"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), REASONS, st.booleans(), st.booleans()), st.just("begin"),
        st.just("succeed"), st.just("fail"),
    ),
    max_size=40,
)  # fmt: skip


@given(STEPS)
def test_whatever_happens_every_request_is_done_by_a_sync_that_began_after_it(steps):
    asked = Generations()
    owed: list[tuple[str, bool, bool]] = []
    running, covered = None, 0
    for step in steps:
        if isinstance(step, tuple):
            _, reason, force, verify = step
            asked.ask(reason, force=force, verify=verify)
            owed.append((reason, force, verify))
        elif step == "begin" and running is None:
            running, covered = asked.due(), len(owed)
            assert (running is not None) == bool(owed)
            if running is not None:
                assert set(running.request.reason.split(", ")) == {one[0] for one in owed}
                assert running.request.force == any(one[1] for one in owed)
                assert running.request.verify == any(one[2] for one in owed)
        elif running is not None:
            if step == "succeed":
                asked.settle(running.generation)
                del owed[:covered]
            running = None


def test_reasons_that_clients_make_up_do_not_pile_up():
    asked = Generations()
    for number in range(1000):
        asked.ask(f"reason {number}")
    asked.ask("reason 0", force=True)
    due = asked.due()
    reasons = due.request.reason.split(", ")
    assert len(reasons) == MAX_REASONS + 1
    assert reasons[-1] == OTHER_REASONS
    assert due.request.force
    asked.settle(due.generation)
    assert asked.due() is None
