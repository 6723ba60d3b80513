from __future__ import annotations

from planck_nb.base.errors import did_you_mean


def test_a_hint_lists_each_name_once_and_few_of_many() -> None:
    assert did_you_mean("agnt", ["agent", "agent", "x"]) == "Did you mean agent?"
    assert did_you_mean("zzz", ["a", "b", "a"]) == "Known are: a, b."
    assert did_you_mean("zzz", []) == ""
    assert did_you_mean("--modle", ["--model", "--deny", "--tools"]) == "Did you mean --model?"
    assert did_you_mean("--by", ["--table", "--debug"]) == "Known are: --debug, --table."
    hint = did_you_mean("zzz", map(str, range(10_000)))
    assert hint.endswith(" and 9980 more.")
    assert len(hint) < 200
