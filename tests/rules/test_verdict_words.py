"""What an engine says of two vocabularies, by its rule; and how lengths and devices are judged at their bounds."""

from __future__ import annotations

from typing import Any

import pytest
from builders import bare_pair, draft, head_pair, pair, target, tokenizer
from test_engine_facts import toy

from draftpick.models.tokenizer import Difference, Relation, RelationKind
from draftpick.pair import Pair
from draftpick.rules.engine import Verdict, most_tokens, needed_option, verdict


def related(kind: RelationKind, verified: bool = True, **fields: Any) -> Relation:
    return Relation(kind=kind, verified=verified, reason="as read", **fields)


RELATIONS: dict[str, Relation | None] = {
    "same": related("identical"),
    "probably": related("identical", False),
    "family": related("identical", False, same_ids=9),
    "padding": related("padding_only"),
    "tags": related("control_tokens", only_target=(996, 997)),
    "said": related("control_tokens", False),
    "longer": related("extension", first_difference_in=(1000, 1023)),
    "other": related("different", first_difference=Difference(id=260, target="er", draft=None), covered=0.5),
    "perhaps": related("different", False),
    "unknown": related("unknown", False),
    "none": None,
}
TEXTS = {"rule": "token-text", "max_size_difference": 100, "first_compared_id": 5}


def of_vocabulary(table: dict[str, Any], judged: Pair, version: str = "1.0") -> Verdict:
    methods = {"draft_model": {"support": "yes"}, "mtp": {"support": "yes"}}
    return verdict(judged, judged.relation, toy(version, vocabulary={"source": "s", **table}, methods=methods))


# Per relation, in the order of RELATIONS: a(ccepted), c(are), r(efused) or u(nknown).
@pytest.mark.parametrize(
    ("rule", "equal", "unequal"),
    [
        ("equal-rows", "aaaacccaaaa", "rrrrrrrrrrr"),
        ("equal-rows-and-map", "acaarcrrruu", "rrrrrrrrrrr"),
        ("equal-rows-or-translate", "aaaacccaaaa", "ccccccccccc"),
        ("named-ids", "aaaacccaaaa", "aaaacccaaaa"),
        ("none", "aaaacccaacc", "ccccccccccc"),
        ("token-text", "acaarcrrruu", "acaarcarruu"),
    ],
)
@pytest.mark.parametrize("severity", [None, "silent no-op"])
def test_verdicts_by_rule_and_relation(rule: str, equal: str, unequal: str, severity: str | None) -> None:
    table = {**TEXTS, "rule": rule, **({"severity": severity} if severity else {})}
    for rows, expected in ((1024, equal), (1000, unequal)):
        found = [of_vocabulary(table, pair(theirs=draft(vocab_size=rows), relation=one)) for one in RELATIONS.values()]
        assert "".join(one.verdict[0] for one in found) == expected
        shown = severity or "refuses at start"
        assert [one.severity for one in found] == [shown if one.verdict == "refused" else None for one in found]


@pytest.mark.parametrize(
    ("rule", "rows", "relation", "reason"),
    [
        ("equal-rows", 1024, "same", "equal embedding rows (1,024), the same tokenizer"),
        ("equal-rows", 1024, "probably", "equal embedding rows (1,024), probably the same tokenizer"),
        (
            "equal-rows",
            1024,
            "tags",
            "equal embedding rows (1,024) is all it compares, but only the target names ids 996–997: "
            "the draft can't propose them",
        ),
        (
            "equal-rows",
            1024,
            "said",
            "equal embedding rows (1,024) is all it compares, but probably the tokenizers differ (as read)",
        ),
        (
            "equal-rows",
            1024,
            "other",
            "equal embedding rows (1,024) is all it compares: it starts, but with another vocabulary "
            "(first at id 260: 'er' against no such token) acceptance will be near zero",
        ),
        (
            "equal-rows",
            1024,
            "none",
            "equal embedding rows (1,024); it compares nothing else, and the tokenizers could not be compared here",
        ),
        ("equal-rows", 1000, "padding", "1,024 embedding rows against 1,000, though the tokenizers are identical"),
        (
            "equal-rows",
            1000,
            "perhaps",
            "1,024 embedding rows against 1,000, and the tokenizers are probably different",
        ),
        (
            "equal-rows",
            1000,
            "longer",
            "1,024 embedding rows against 1,000, and the tokenizers differ in some ids "
            "(first between ids 1000 and 1023)",
        ),
        ("equal-rows", 1000, "none", "1,024 embedding rows against 1,000"),
        ("equal-rows", None, "same", "the embedding rows of Toy-2-1B-Instruct are not known"),
        (
            "equal-rows-or-translate",
            1000,
            "unknown",
            "1,024 embedding rows against 1,000: both tokenizers must be passed, and drafts are translated as text",
        ),
        ("equal-rows-and-map", 1024, "same", "equal embedding rows (1,024) and the same token map"),
        (
            "equal-rows-and-map",
            1024,
            "family",
            "equal embedding rows (1,024) and probably the same token map: "
            "compared on the family's files, not read from both repositories",
        ),
        ("equal-rows-and-map", 1024, "perhaps", "the token maps probably differ, as read"),
        (
            "equal-rows-and-map",
            1024,
            "said",
            "it compares token maps, and some ids probably differ, which is not known: as read",
        ),
        ("named-ids", None, "same", "equal tokenizer.vocab_size, the same tokenizer"),
        ("named-ids", None, "padding", "equal tokenizer.vocab_size, the same tokenizer"),
        (
            "named-ids",
            None,
            "none",
            "equal tokenizer.vocab_size (990); it compares nothing else, and the tokenizers could not be compared here",
        ),
        (
            "none",
            1024,
            "other",
            "nothing is compared at start: it starts, but with another vocabulary "
            "(first at id 260: 'er' against no such token) acceptance will be near zero",
        ),
        (
            "none",
            1000,
            "other",
            "nothing is compared at start (1,024 embedding rows against 1,000), and acceptance will be near zero: "
            "first at id 260: 'er' against no such token",
        ),
        (
            "none",
            None,
            "same",
            "nothing is compared at start, though the tokenizers are identical: try it before relying on it",
        ),
        ("token-text", 1000, "same", "the same token text at every shared id (1,024 and 1,000 tokens)"),
        ("token-text", None, "probably", "probably the same token text at every shared id: no file was compared"),
        ("token-text", 923, "same", "1,024 tokens against 923: a difference of 101, allowed are 100"),
        ("token-text", 1024, "tags", "token texts differ, first at id 996"),
        ("token-text", None, "longer", "token texts differ, first between ids 1000 and 1023"),
        (
            "token-text",
            1000,
            "longer",
            "the same token text at every shared id (1,024 and 1,000 tokens); the differing ids are not compared",
        ),
    ],
)
def test_reasons_by_rule_and_relation(rule: str, rows: int | None, relation: str, reason: str) -> None:
    found = of_vocabulary({**TEXTS, "rule": rule}, pair(theirs=draft(vocab_size=rows), relation=RELATIONS[relation]))
    assert found.reasons == (reason,)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"only_target": (7,)}, "only the target names id 7: the draft can't propose them"),
        ({"only_draft": (7, 9)}, "only the draft names ids 7, 9: what it proposes there is lost"),
        ({"only_draft": (4, 5, 6, 7, 8)}, "only the draft names ids 4–8: what it proposes there is lost"),
        ({"only_draft": (1, 3, 5, 9)}, "only the draft names ids 1, 3, 5, 9: what it proposes there is lost"),
        ({"only_draft": (1, 3, 5, 9, 11)}, "only the draft names 5 ids from 1 on: what it proposes there is lost"),
        ({"renamed": (2,)}, "id 2 means another control token (as read)"),
        ({"renamed": (2, 3)}, "ids 2–3 mean other control tokens (as read)"),
        (
            {"only_target": (7,), "only_draft": (8,), "verified": False},
            "probably only the target names id 7: the draft can't propose them; "
            "only the draft names id 8: what it proposes there is lost",
        ),
    ],
)
def test_control_tokens_that_differ_are_told(fields: dict[str, Any], reason: str) -> None:
    judged = pair(relation=related("control_tokens", **fields))
    said = f"equal embedding rows (1,024) is all it compares, but {reason}"
    assert of_vocabulary({"rule": "equal-rows"}, judged).reasons == (said,)


FIRST = "first at id {}: 'a' against no such token"


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        pytest.param("control_tokens", {"at": 4}, None, id="before the first compared"),
        pytest.param("control_tokens", {"at": 5}, FIRST.format(5), id="the first compared"),
        pytest.param("control_tokens", {"at": 999}, FIRST.format(999), id="the last shared"),
        pytest.param("control_tokens", {"at": 1000}, None, id="beyond the shared"),
        pytest.param("control_tokens", {"at": 2, "renamed": (2, 900)}, "first at id 900", id="a later one"),
        pytest.param("control_tokens", {"at": 4, "only_draft": (4, 1000)}, None, id="named outside"),
        pytest.param("control_tokens", {"only_draft": (1000, 5)}, "first at id 5", id="named at the first compared"),
        pytest.param("control_tokens", {"only_target": (999,)}, "first at id 999", id="named at the last shared"),
        pytest.param("different", {"at": 4}, FIRST.format(4), id="another vocabulary differs further on"),
        pytest.param(
            "extension", {"within": (999, 2000)}, "first between ids 999 and 2000", id="a block begins inside"
        ),
        pytest.param("extension", {"within": (1000, 2000)}, None, id="a block begins beyond"),
        pytest.param("extension", {"within": (0, 5)}, "first between ids 0 and 5", id="a block ends inside"),
        pytest.param("extension", {"within": (0, 4)}, None, id="a block ends before"),
        pytest.param("extension", {}, "as read", id="nothing more is known"),
    ],
)
def test_where_texts_first_part(kind: RelationKind, fields: dict[str, Any], said: str | None) -> None:
    known = {name: value for name, value in fields.items() if name not in ("at", "within")}
    if "at" in fields:
        known["first_difference"] = Difference(id=fields["at"], target="a", draft=None)
    if "within" in fields:
        known["first_difference_in"] = fields["within"]
    found = of_vocabulary(TEXTS, pair(theirs=draft(vocab_size=1000), relation=related(kind, **known)))
    assert found.verdict == ("accepted" if said is None else "refused")
    assert found.reasons[0].endswith("are not compared" if said is None else f"token texts differ, {said}")


@pytest.mark.parametrize(
    ("ours", "theirs", "always", "reasons"),
    [
        ({}, {}, False, 0),
        ({"vocab_type": "BPE"}, {"vocab_type": "SPM"}, False, "vocabulary type BPE against SPM"),
        ({"vocab_type": "BPE"}, {"vocab_type": "BPE"}, False, 0),
        ({"vocab_type": "BPE"}, {}, False, 0),
        ({}, {"add_bos": False}, False, "one adds bos, the other does not"),
        ({}, {"bos": 5}, False, "bos is id 1 against 5"),
        ({"add_bos": False}, {"add_bos": False, "bos": 5}, False, 0),
        ({"add_bos": False}, {"add_bos": False, "bos": 5}, True, "bos is id 1 against 5"),
        ({"add_bos": None}, {"bos": 5}, False, 0),
        ({"bos": None}, {"bos": 5}, True, 0),
        ({"add_eos": True}, {"add_eos": False}, False, "one adds eos, the other does not"),
        ({"add_eos": True}, {"add_eos": True, "eos": 3}, False, "eos is id 2 against 3"),
        ({}, {"eos": 3}, False, 0),
        ({}, {"eos": 3}, True, "eos is id 2 against 3"),
    ],
)
def test_special_tokens(ours: dict[str, Any], theirs: dict[str, Any], always: bool, reasons: str | int) -> None:
    table = {**TEXTS, "special_ids_always": always}
    found = of_vocabulary(table, pair(target(tokenizer=tokenizer(**ours)), draft(tokenizer=tokenizer(**theirs))))
    assert (found.verdict, found.reasons[0]) == (
        ("refused", reasons) if reasons else ("accepted", "the same token text at every shared id")
    )


@pytest.mark.parametrize(
    ("relation", "note", "said"),
    [
        ("same", None, ", though the tokenizers are identical: refused as shipped; b drafts only what both name"),
        ("other", None, ", which reach 50% of the target's tokens on text"),
        ("other", "greedy", ", which reach 50% of the target's tokens on text (greedy)"),
        ("none", None, "1,024 embedding rows against 1,000: refused as shipped; b drafts only what both name"),
    ],
)
def test_a_bridge_lets_unequal_rows_through(relation: str, note: str | None, said: str) -> None:
    table = {"rule": "equal-rows", "bridge": {"name": "b", "note": note}}
    found = of_vocabulary(table, pair(theirs=draft(vocab_size=1000), relation=RELATIONS[relation]))
    assert (found.verdict, found.severity) == ("care", None)
    assert found.reasons[0].endswith(said)


BRIDGED = {"rule": "equal-rows", "source": "s", "bridge": {"name": "--use-b", "since": "0.8"}}


@pytest.mark.parametrize(
    ("judged", "version", "option"),
    [
        pytest.param(pair(theirs=draft(vocab_size=1000)), "1.0", "--use-b", id="other rows"),
        pytest.param(pair(theirs=draft(vocab_size=1000), method="pard"), "0.8", "--use-b", id="a draft of its own"),
        pytest.param(pair(theirs=draft(vocab_size=1000)), "0.7", None, id="before there was one"),
        pytest.param(pair(theirs=draft(vocab_size=1000), method="eagle3"), "1.0", None, id="a head's rows"),
        pytest.param(pair(), "1.0", None, id="equal rows"),
        pytest.param(pair(theirs=draft(vocab_size=None)), "1.0", None, id="the draft's not known"),
        pytest.param(pair(target(vocab_size=None)), "1.0", None, id="the target's not known"),
        pytest.param(head_pair(), "1.0", None, id="a head"),
        pytest.param(bare_pair("ngram"), "1.0", None, id="no draft"),
    ],
)
def test_the_option_that_is_needed(judged: Pair, version: str, option: str | None) -> None:
    assert needed_option(judged, toy(version, vocabulary=BRIDGED)) == option
    assert needed_option(judged, toy(version, vocabulary={"rule": "equal-rows", "source": "s"})) is None


# ---------------------------------------------------------------------- methods, lengths, devices


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"support": "yes"}, ("accepted", None, ("Toy takes mtp",))),
        ({"support": "yes", "needs": "a plug-in"}, ("accepted", None, ("a plug-in",))),
        ({"support": "yes", "note": "not said"}, ("accepted", None, ("Toy takes mtp",))),
        ({"support": "no"}, ("refused", "refuses at start", ("Toy has no mtp",))),
        (
            {"support": "no", "note": "never", "severity": "corrupts", "needs": "a plug-in"},
            ("refused", "corrupts", ("never",)),
        ),
        ({"support": "experimental"}, ("care", None, ("mtp is experimental in Toy",))),
        (
            {"support": "experimental", "needs": "a plug-in", "severity": "warns"},
            ("care", "warns", ("mtp is experimental in Toy", "a plug-in")),
        ),
        ({"support": "unknown"}, ("unknown", None, ("whether Toy has mtp is not known",))),
        (None, ("unknown", None, ("whether Toy has mtp is not known",))),
    ],
)
def test_a_method(row: dict[str, Any] | None, expected: tuple[Any, ...]) -> None:
    found = verdict(bare_pair("mtp"), None, toy(methods={"mtp": row} if row else {}))
    assert (found.verdict, found.severity, found.reasons) == expected


LIMITED = {"limits": {"max_num_spec_tokens": 4, "severity": "corrupts"}}


@pytest.mark.parametrize(
    ("row", "limits", "k", "expected"),
    [
        ({}, {}, 99, ("accepted", None, "Toy takes mtp")),
        ({}, LIMITED, 4, ("accepted", None, "Toy takes mtp")),
        ({}, LIMITED, 5, ("refused", "corrupts", "num_spec_tokens 5 is above 4: the engine's limit")),
        (
            {},
            {"limits": {**LIMITED["limits"], "note": "a kernel"}},
            5,
            ("refused", "corrupts", "5 is above 4: a kernel"),
        ),
        ({"max_num_spec_tokens": 2, "max_note": "layers"}, LIMITED, 3, ("refused", "corrupts", "3 is above 2: layers")),
        ({"max_num_spec_tokens": 2}, {}, 3, ("refused", None, "3 is above 2: the engine's limit")),
        (
            {"multiple_of_layers": True, "reuses_layers": True},
            {},
            3,
            ("refused", "refuses at start", "num_spec_tokens 3 is no multiple of the 2 MTP layers"),
        ),
        (
            {"multiple_of_layers": True, "reuses_layers": True},
            {},
            4,
            ("accepted", None, "4 tokens from 2 MTP layers: used again, each accepts less"),
        ),
        ({"reuses_layers": True}, {}, 3, ("accepted", None, "3 tokens from 2 MTP layers")),
        ({"multiple_of_layers": True, "reuses_layers": True}, {}, 2, ("accepted", None, "Toy takes mtp")),
        ({"multiple_of_layers": True, "reuses_layers": True}, {}, 1, ("accepted", None, "Toy takes mtp")),
        ({"multiple_of_layers": True}, {}, 4, ("accepted", None, "Toy takes mtp")),
    ],
)
def test_lengths(row: dict[str, Any], limits: dict[str, Any], k: int, expected: tuple[Any, ...]) -> None:
    engine = toy(methods={"mtp": {"support": "yes", **row}}, **limits)
    found = verdict(bare_pair("mtp", target(num_nextn_predict_layers=2), num_spec_tokens=k), None, engine)
    assert (found.verdict, found.severity) == expected[:2]
    assert expected[2] in found.reasons[0]


def test_the_most_tokens_are_the_methods_or_the_engines() -> None:
    engine = toy(methods={"mtp": {"support": "yes", "max_num_spec_tokens": 2}}, **LIMITED)
    assert [most_tokens(engine, method) for method in ("mtp", "eagle3")] == [2, 4]
    assert most_tokens(toy(), "mtp") is None


@pytest.mark.parametrize(
    ("theirs", "size", "rule", "expected"),
    [
        ({"num_attention_heads": 14}, 4, "equal", "refused"),
        ({"num_attention_heads": 14}, 4, "one-or-equal", "care"),
        ({"num_attention_heads": 14}, 4, None, "accepted"),
        ({"num_attention_heads": 14}, 2, "equal", "accepted"),
        ({"num_attention_heads": 14}, 1, "equal", "accepted"),
        ({"num_attention_heads": None}, 4, "equal", "accepted"),
        ({"num_attention_heads": 12, "num_key_value_heads": 3}, 4, "equal", "refused"),
        ({"num_attention_heads": 12, "num_key_value_heads": 2}, 4, "equal", "accepted"),
        ({"num_attention_heads": 12, "num_key_value_heads": 4}, 2, "equal", "accepted"),
        ({"num_attention_heads": 12, "num_key_value_heads": None}, 4, "equal", "accepted"),
    ],
)
@pytest.mark.parametrize("of", ["any", "draft_model"])
def test_devices(theirs: dict[str, Any], size: int, rule: str | None, expected: str, of: str) -> None:
    engine = toy(
        methods={"draft_model": {"support": "yes"}},
        tensor_parallel={of: rule, "severity": "crashes under load"} if rule else {},
    )
    judged = pair(theirs=draft(**theirs), tensor_parallel_size=size)
    found = verdict(judged, judged.relation, engine)
    assert (found.verdict, found.severity) == (expected, "crashes under load" if expected == "refused" else None)


def test_a_reason_names_what_was_asked_for() -> None:
    row = {"target": {"moe": False}, "verdict": "care", "severity": "warns"}
    row["reason"] = "{target} {draft} {k} {tp} {max_model_len} {max_num_seqs}"
    setting = {"num_spec_tokens": 3, "tensor_parallel_size": 2, "max_model_len": 100, "max_num_seqs": 5}
    found = verdict(bare_pair("ngram", **setting), None, toy(methods={"ngram": {"support": "yes"}}, exceptions=[row]))
    assert (found.reasons, found.severity) == (("Toy-2-7B-Instruct n-gram lookup 3 2 100 5",), "warns")


def test_the_worst_reason_comes_first_and_each_once() -> None:
    rows = [
        {"target": {"moe": False}, "verdict": verdict, "severity": f"as {verdict}", "reason": f"is {verdict}"}
        for verdict in ("care", "unknown", "refused", "care")
    ]
    found = verdict(bare_pair("ngram"), None, toy("main", methods={"ngram": {"support": "yes"}}, exceptions=rows))
    note = "version 'main' is judged by the facts of 1.0"
    assert found == Verdict("toy", "main", "refused", ("is refused", "is unknown", "is care", note), "as refused")
