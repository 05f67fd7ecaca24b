from __future__ import annotations

from typing import Any

import pytest
from builders import ask, bare_pair, draft, head, head_pair, pair, says, target

YARN = "yarn 4 32768"


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(pair(), "ok", id="equal"),
        pytest.param(pair(theirs=draft(max_position_embeddings=2048)), "warn 0.5", id="shorter than the target"),
        pytest.param(
            pair(theirs=draft(max_position_embeddings=2048), max_model_len=2048), "ok", id="shorter, but enough"
        ),
        pytest.param(
            pair(theirs=draft(max_position_embeddings=2048), max_model_len=4096), "warn 0.3", id="shorter than asked"
        ),
        pytest.param(pair(theirs=draft(max_position_embeddings=None)), "skip", id="not known"),
        pytest.param(head_pair(published=head(max_position_embeddings=2048)), "warn 0.5", id="a head"),
        pytest.param(bare_pair("ngram"), "n/a", id="n-gram"),
        pytest.param(bare_pair("mtp"), "n/a", id="own layers"),
    ],
)
def test_context_length(judged: Any, expected: str) -> None:
    assert says("context-length", judged) == expected


def test_context_length_names_where_the_gain_ends() -> None:
    outcome = ask("context-length", pair(theirs=draft(max_position_embeddings=2048), max_model_len=8192))
    assert outcome.message == "The draft ends at 2048 tokens, 8192 were asked for: no gain beyond."
    assert outcome.evidence["effective_context"] == 2048


def test_a_draft_that_ends_sooner_scores_lower() -> None:
    scores = [
        ask("context-length", pair(theirs=draft(max_position_embeddings=n))).score for n in (1024, 4096, 16384, 32768)
    ]
    assert scores == sorted(scores)
    assert len(set(scores)) == len(scores)


@pytest.mark.parametrize(
    ("ours", "theirs", "setting", "expected"),
    [
        pytest.param({}, {}, {}, "ok", id="none"),
        pytest.param({"rope": YARN}, {"rope": YARN}, {}, "ok", id="the same"),
        pytest.param({"rope": YARN}, {"rope": "yarn 2 32768"}, {}, "ok 0.95", id="another factor"),
        pytest.param({"rope": YARN}, {}, {}, "warn 0.55", id="only the target"),
        pytest.param({"rope": YARN}, {"rope": "llama3 8 8192"}, {}, "warn 0.55", id="another kind"),
        pytest.param({"rope": YARN}, {}, {"max_model_len": 32768}, "ok 0.9", id="within the native length"),
        pytest.param({"rope": YARN}, {}, {"max_model_len": 32769}, "warn 0.55", id="one past it"),
        pytest.param({}, {"origin": "catalogue"}, {}, "skip", id="a catalogue row does not say"),
    ],
)
def test_rope_scaling(ours: dict[str, Any], theirs: dict[str, Any], setting: dict[str, Any], expected: str) -> None:
    assert says("rope-scaling", pair(target(**ours), draft(**theirs), **setting)) == expected


@pytest.mark.parametrize(
    ("rope", "expected"),
    [pytest.param("llama3 8 8192", "warn 0.55", id="another kind"), pytest.param(None, "n/a", id="not known")],
)
def test_rope_scaling_of_a_head(rope: str | None, expected: str) -> None:
    assert says("rope-scaling", head_pair(target(rope=YARN), head(rope=rope))) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "images", "expected"),
    [
        pytest.param("text", "text", None, "ok", id="text"),
        pytest.param("text", "text+vision", None, "ok 0.9", id="the draft alone sees"),
        pytest.param("text+vision", "text", None, "warn 0.6", id="the target alone sees"),
        pytest.param("text+vision", "text", False, "ok 0.95", id="no images are sent"),
        pytest.param("text+vision", "text", True, "warn 0.25", id="images are sent"),
        pytest.param("text+vision", "text+vision", None, "warn 0.6", id="both see"),
    ],
)
def test_modality(ours: str, theirs: str, images: bool | None, expected: str) -> None:
    assert says("modality", pair(target(modality=ours), draft(modality=theirs), images=images)) == expected


def test_images_that_are_sent_weigh_more_than_images_that_may_be() -> None:
    sent, perhaps = (
        ask("modality", pair(target(modality="text+vision"), images=images)).score for images in (True, None)
    )
    assert sent < perhaps


@pytest.mark.parametrize(
    ("ours", "theirs", "images", "expected"),
    [
        pytest.param(False, False, None, "ok", id="neither"),
        pytest.param(True, True, None, "warn 0.2", id="both"),
        pytest.param(True, False, None, "warn 0.7", id="the target"),
        pytest.param(True, False, False, "ok 0.95", id="the target, no images"),
        pytest.param(True, True, False, "warn 0.2", id="both, no images"),
    ],
)
def test_mrope(ours: bool, theirs: bool, images: bool | None, expected: str) -> None:
    assert says("mrope", pair(target(mrope=ours), draft(mrope=theirs), images=images)) == expected


@pytest.mark.parametrize(
    ("judged", "expected", "sides"),
    [
        pytest.param(pair(), "ok", None, id="attention"),
        pytest.param(pair(target(attention="sliding")), "ok", None, id="sliding windows"),
        pytest.param(pair(target(attention="hybrid")), "warn 0.5", ["target"], id="hybrid target"),
        pytest.param(pair(theirs=draft(attention="recurrent")), "warn 0.4", ["draft"], id="recurrent draft"),
        pytest.param(
            pair(target(attention="hybrid"), draft(attention="hybrid")), "warn 0.35", ["target", "draft"], id="both"
        ),
        pytest.param(
            bare_pair("ngram", target(attention="hybrid")), "warn 0.5", ["target"], id="n-gram rolls back too"
        ),
        pytest.param(bare_pair("mtp", target(attention="hybrid")), "warn 0.8", ["target"], id="own layers"),
        pytest.param(pair(theirs=draft(attention="unknown")), "skip", None, id="not known"),
    ],
)
def test_recurrent_state(judged: Any, expected: str, sides: list[str] | None) -> None:
    assert says("recurrent-state", judged) == expected
    assert ask("recurrent-state", judged).evidence.get("sides") == sides


def test_own_layers_do_better_than_a_draft_on_a_hybrid_target() -> None:
    hybrid = target(attention="hybrid")
    assert ask("recurrent-state", bare_pair("mtp", hybrid)).score > ask("recurrent-state", pair(hybrid)).score


@pytest.mark.parametrize(
    ("reach", "expected"),
    [(32768, "ok"), (32767, "warn 0.9"), (16384, "warn 0.8"), (8192, "warn 0.7"), (64, "warn 0.2"), (1, "warn 0.2")],
)
def test_each_halving_of_the_reach_costs_a_tenth(reach: int, expected: str) -> None:
    assert says("context-length", pair(theirs=draft(max_position_embeddings=reach))) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        pytest.param("full", "hybrid", "warn 0.4", id="the draft"),
        pytest.param("recurrent", "full", "warn 0.5", id="the target"),
        pytest.param("recurrent", "hybrid", "warn 0.35", id="both"),
        pytest.param("unknown", "full", "skip", id="not known of the target"),
        pytest.param("full", "unknown", "skip", id="not known of the draft"),
    ],
)
def test_states_that_are_rolled_back(ours: str, theirs: str, expected: str) -> None:
    assert says("recurrent-state", pair(target(attention=ours), draft(attention=theirs))) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "native"),
    [
        pytest.param({"rope": YARN}, {}, 32768, id="both reach as far"),
        pytest.param({"rope": YARN}, {"max_position_embeddings": 4096}, 4096, id="the draft ends sooner"),
        pytest.param({"rope": "yarn 4 2048"}, {}, 2048, id="the target was stretched from there"),
        pytest.param({"rope": "odd"}, {"max_position_embeddings": None}, None, id="not known"),
    ],
)
def test_the_native_length_is_the_shorter(ours: dict[str, Any], theirs: dict[str, Any], native: int | None) -> None:
    assert ask("rope-scaling", pair(target(**ours), draft(**theirs))).evidence["native"] == native


@pytest.mark.parametrize("origin", ["folder", "gguf", "cache", "hub"])
def test_a_configuration_without_a_scaling_has_none(origin: str) -> None:
    assert says("rope-scaling", pair(target(origin=origin), draft(origin=origin))) == "ok"
    assert says("rope-scaling", pair(target(origin="overlay"), draft(origin=origin))) == "skip"


@pytest.mark.parametrize("rule", ["modality", "mrope"])
def test_without_a_draft_model_nothing_is_seen(rule: str) -> None:
    assert says(rule, head_pair()) == "n/a"


def test_images_for_both_weigh_more_where_they_are_sent() -> None:
    both = pair(target(modality="text+vision"), draft(modality="text+vision"), images=True)
    assert says("modality", both) == "warn 0.4"
