"""`health`: one word, and a reason for each that is not `ok`."""

from gateway.tools.status import Health, judge_health

WEAKNESS = "openai gives no vectors at present: no route"


def test_a_working_memory_is_ok():
    assert judge_health() == Health("ok", ())


def test_a_memory_that_is_off_on_purpose_is_ok_and_says_so():
    assert judge_health(disabled="Switched off.") == Health("ok", ("Switched off.",))


def test_a_memory_that_cannot_answer_is_failing():
    assert judge_health([WEAKNESS], failure="No disk.") == Health("failing", ("No disk.",))


def test_a_failing_sync_and_every_weakness_degrade_it():
    health = judge_health([WEAKNESS], sync_error="The disk is full.")
    assert health.status == "degraded"
    assert len(health.reasons) == 2
    assert "The disk is full." in health.reasons[0]
    assert health.reasons[1:] == (WEAKNESS,)


def test_a_configuration_that_cannot_be_read_degrades_also_what_is_off():
    health = judge_health(config_error="line 3: no brace", disabled="Switched off.")
    assert health.status == "degraded"
    assert "line 3: no brace" in health.reasons[0]
    assert health.reasons[1] == "Switched off."
