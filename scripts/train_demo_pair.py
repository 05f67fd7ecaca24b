#!/usr/bin/env python3
"""Train the demo pair: a tiny target, a tinier draft distilled from it, and their shared tokenizer → catalog/demo/.

Stages: target; target against its own loops; draft; draft on the target's distributions.

Text: Python functions of the standard library and paragraphs of its manual (PSF-2.0), entries of the Jargon File
(public domain), half code and half prose by tokens, one function or a few paragraphs per document, so that the pair
learns to stop. Files are held out by a hash of their name. Everything comes from four Debian packages, pinned below.

    python scripts/train_demo_pair.py --texts /tmp/demo-texts --download --out catalog/demo
    python scripts/train_demo_pair.py --texts /tmp/demo-texts --out catalog/demo --evaluate   # an existing pair

One thread, about 40 minutes on a core with AVX512-BF16. Needs torch, transformers 5, tokenizers and numpy.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import hashlib
import json
import platform
import random
import re
import subprocess
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn import functional as F
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

BOS, EOS = 0, 1
VOCAB = 2048
WINDOW = 256  # tokens the pair is trained on at a time
DOCUMENT_TOKENS = (40, 254)  # with <s> and </s> the longest still fits a window
HELD_OUT = 12 / 256  # share of the files
EVALUATED = 24  # held-out prompts, half of each domain
PROMPT_TOKENS, ANSWER_TOKENS = 32, 96

DOMAINS = ("code", "prose")
SHAPES = {  # hidden, layers, heads, key-value heads, intermediate; head size 32
    "target": (192, 6, 6, 3, 512),
    "draft": (96, 2, 3, 3, 256),
}


@dataclass(frozen=True)
class Source:
    package: str
    version: str
    sha256: str
    licence: str
    holds: str


SOURCES = (
    Source(
        "libpython3.11-minimal",
        "3.11.2-6+deb12u9",
        "69f41cfa3f4ba17284e538f843069d7529c53c207d2ae17a5b02785944870e33",
        "PSF-2.0",
        "Python standard library (functions and classes)",
    ),
    Source(
        "libpython3.11-stdlib",
        "3.11.2-6+deb12u9",
        "10f13e000ee757f5f2d2d3569f9e30546214a0c850acd78695feae373bfa3e53",
        "PSF-2.0",
        "Python standard library (functions and classes)",
    ),
    Source(
        "python3.11-doc",
        "3.11.2-6+deb12u9",
        "5b3594189d6ef9a6963ce0347fd307a1cc67620ad697e144db366070e2e146be",
        "PSF-2.0",
        "Python manual (paragraphs of the reStructuredText sources)",
    ),
    Source(
        "jargon-text",
        "4.4.7-4.1",
        "17d05997e30eb3d5d6713929b8e2f81b63a5f50073858ad2a06701c71f54dcdb",
        "public domain",
        "The Jargon File, version 4.4.7, 29 Dec 2003",
    ),
)
# Of all documents, each followed by a NUL.
TEXT_SHA256 = "c65e54626f9ef064d794c4417fd824aa103a61aed8c44ebe8224877a16430397"


@dataclass(frozen=True)
class Document:
    domain: str  # "code" or "prose"
    origin: str  # what is held out or not as a whole: a file, an entry
    text: str

    @property
    def held_out(self) -> bool:
        return hashlib.sha256(self.origin.encode()).digest()[0] < HELD_OUT * 256


@dataclass
class Corpus:
    train: list[Document]
    held: list[Document]
    sha256: str


# --- text ------------------------------------------------------------------------------------------------------------


def download(folder: Path) -> None:
    """Fetch the pinned packages with apt, check their hashes and unpack them, without installing anything."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in SOURCES:
        subprocess.run(["apt-get", "download", f"{source.package}={source.version}"], cwd=folder, check=True)
        (deb,) = folder.glob(f"{source.package}_*.deb")
        if (found := hashlib.sha256(deb.read_bytes()).hexdigest()) != source.sha256:
            raise SystemExit(f"{deb.name}: sha256 is {found}, expected {source.sha256}")
        subprocess.run(["dpkg-deb", "-x", deb.name, "."], cwd=folder, check=True)


SKIPPED_FOLDERS = {"test", "tests", "idle_test", "encodings", "lib2to3", "pydoc_data", "__pycache__"}


def code_documents(lib: Path) -> Iterator[Document]:
    """Functions, methods and short classes, each without the indentation it had."""
    for path in sorted(lib.rglob("*.py")):
        name = path.relative_to(lib)
        if SKIPPED_FOLDERS & set(name.parts) or name.name.startswith("_sysconfigdata"):
            continue
        source = path.read_text("utf-8", errors="ignore")
        for text in definitions(ast.parse(source).body, source.splitlines()):
            yield Document("code", f"code/{name.as_posix()}", text)


def definitions(body: list[ast.stmt], lines: list[str], longest: int = 900) -> Iterator[str]:
    """The definitions of a body; one too long for a document gives way to the definitions inside it."""
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
        text = textwrap.dedent("\n".join(lines[first : node.end_lineno])).rstrip()
        if len(text) <= longest:
            yield text
        else:
            yield from definitions(node.body, lines, longest)


ROLE = re.compile(r":[\w:+-]+:`[!~]?\.?([^`<]+?)(?:\s*<[^`>]*>)?`")
LINK = re.compile(r"`([^`<]+?)\s*<[^`>]*>`__?")
EMPHASIS = re.compile(r"(\*\*|\*|``|`)(\S(?:[^*`\n]*\S)?)\1")
ITEM = re.compile(r"^\s*(?:[*•-]|#\.|\d+\.|\([a-z0-9]\))\s+")
PLAIN = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u00a0": " "})
SENTENCE = re.compile(r"^[\"'(\[]?[A-Z].*[.:!?][\"')\]]*$", re.DOTALL)


def blocks(text: str) -> Iterator[str]:
    """Runs of lines between blank lines, with list items apart."""
    for chunk in re.split(r"\n\s*\n", text):
        lines: list[str] = []
        for line in chunk.splitlines():
            if ITEM.match(line) and lines:
                yield "\n".join(lines)
                lines = []
            lines.append(ITEM.sub("", line))
        yield "\n".join(lines)


def paragraph(block: str) -> str | None:
    """A block as one line of plain prose, or None if it is something else (code, a table, a directive)."""
    if re.match(r"\s*(\.\. |>>>|\$ )", block) or any(mark in block for mark in (">>>", "│", "├", "==", "--+", "::\n")):
        return None
    text = LINK.sub(r"\1", ROLE.sub(r"\1", block))
    text = " ".join(EMPHASIS.sub(r"\2", text).translate(PLAIN).replace("\\", "").split())
    text = re.sub(r"\{([^{}]*)\}", r"\1", text).removesuffix("::") + (":" if text.endswith("::") else "")
    letters = sum(c.isalpha() or c == " " for c in text)
    return text if len(text) >= 40 and SENTENCE.match(text) and letters >= 0.88 * len(text) else None


def gather(paragraphs: list[str], enough: int = 260, longest: int = 1000) -> Iterator[str]:
    """Neighbouring paragraphs joined until a document is long enough."""
    held = ""
    for text in paragraphs:
        if held and len(held) + len(text) > longest:
            yield held
            held = ""
        held = f"{held}\n{text}" if held else text
        if len(held) >= enough:
            yield held
            held = ""
    if held:
        yield held


HEADING = re.compile(r"^[^\n]+\n([=\-~^\"*#])\1{3,}\s*$", re.MULTILINE)


def manual_documents(sources: Path) -> Iterator[Document]:
    for path in sorted(sources.rglob("*.rst.txt")):
        origin = f"manual/{path.relative_to(sources).as_posix()}"
        for section in HEADING.split(path.read_text("utf-8")):
            found = [p for b in blocks(section) if (p := paragraph(b))]
            yield from (Document("prose", origin, text) for text in gather(found))


ENTRY = re.compile(r"^ {3}:([^:\n]{2,40}):[^\n]*$", re.MULTILINE)


def jargon_documents(path: Path) -> Iterator[Document]:
    """Entries as "term: definition"; the chapters before and after them as plain paragraphs."""
    parts = ENTRY.split(gzip.decompress(path.read_bytes()).decode("utf-8"))
    for term, body in zip(["", *parts[1::2]], parts[0::2], strict=True):
        found = [p for b in blocks(body) if (p := paragraph(b))]
        if found and term:
            found[0] = f"{term.translate(PLAIN)}: {found[0]}"
        for number, text in enumerate(gather(found)):
            yield Document("prose", f"jargon/{term or number}", text)


def read_corpus(folder: Path) -> Corpus:
    """All documents, each text once; what also stands in a held-out file is no training text."""
    doc = folder / "usr/share/doc"
    documents = [
        *code_documents(folder / "usr/lib/python3.11"),
        *manual_documents(doc / "python3.11/html/_sources"),
        *jargon_documents(doc / "jargon-text/jargon.txt.gz"),
    ]
    held = list({d.text: d for d in documents if d.held_out}.values())
    seen = {d.text for d in held}
    train = list({d.text: d for d in documents if d.text not in seen}.values())
    digest = hashlib.sha256("".join(d.text + "\0" for d in [*train, *held]).encode()).hexdigest()
    return Corpus(train, held, digest)


# --- tokens ----------------------------------------------------------------------------------------------------------


def train_tokenizer(texts: list[str]) -> Tokenizer:
    """Byte-level BPE that puts <s> in front, as the pair expects."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", BOS)]
    )
    return tokenizer


@dataclass(frozen=True)
class Encoded:
    document: Document
    ids: list[int]  # with <s> and </s>


def encode(documents: list[Document], tokenizer: Tokenizer) -> list[Encoded]:
    """Documents of a fit length, as token ids."""
    low, high = DOCUMENT_TOKENS
    encodings = tokenizer.encode_batch([d.text for d in documents], add_special_tokens=False)
    pairs = zip(documents, encodings, strict=True)
    return [Encoded(d, [BOS, *e.ids, EOS]) for d, e in pairs if low <= len(e.ids) <= high]


def windows(documents: list[list[int]], rng: np.random.Generator) -> Iterator[list[int]]:
    """Endless windows of WINDOW + 1 tokens; each begins with a document, and one cut short begins the next window."""
    while True:
        window: list[int] = []
        for index in rng.permutation(len(documents)):
            window = window + documents[index]
            if len(window) > WINDOW:
                yield window[: WINDOW + 1]
                window = documents[index] if len(window) > WINDOW + 1 else []


Batches = Iterator[tuple[list[int], ...]]


def batches(domains: dict[str, list[list[int]]], rng: np.random.Generator) -> Batches:
    """One window of each domain at a time: code and prose in equal parts, however much text either has."""
    return zip(*(windows(documents, rng) for documents in domains.values()), strict=True)


# --- training --------------------------------------------------------------------------------------------------------


def build(kind: str) -> LlamaForCausalLM:
    hidden, layers, heads, kv_heads, intermediate = SHAPES[kind]
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=intermediate,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=BOS,
        eos_token_id=EOS,
        rms_norm_eps=1e-5,
    )
    model = LlamaForCausalLM(config)
    for layer in model.model.layers:  # a quieter residual stream at the start: the deeper model learns sooner
        for weight in (layer.self_attn.o_proj.weight, layer.mlp.down_proj.weight):
            weight.data.mul_((2 * layers) ** -0.5)
    return model


def parameters(model: LlamaForCausalLM) -> int:
    return sum(p.numel() for p in model.parameters())


def plain_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def train(
    model: LlamaForCausalLM,
    name: str,
    source: Batches,
    steps: int,
    rate: float,
    teacher: LlamaForCausalLM | None = None,
) -> dict[str, Any]:
    """AdamW, short warm-up, linear decay to nothing; on the teacher's distributions where there is one."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.05, fused=True)
    warm_up, began, losses = min(200, steps // 5 + 1), time.process_time(), []
    model.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min((step + 1) / warm_up, (steps - step) / (steps - warm_up + 1))
        ids = torch.tensor(next(source))
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids[:, :-1], use_cache=False).logits.float()
        if teacher is None:
            loss = plain_loss(logits, ids[:, 1:])
        else:
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                wanted = teacher(ids[:, :-1], use_cache=False).logits.float().softmax(-1)
            loss = -(wanted * logits.log_softmax(-1)).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 250 == 0 or step + 1 == steps:
            mean = sum(losses[-250:]) / len(losses[-250:])
            print(f"{name} {step + 1}/{steps} {time.process_time() - began:.0f} s, loss {mean:.3f}", flush=True)
    model.eval()
    seconds = round(time.process_time() - began, 1)
    return {"steps": steps, "learning_rate": rate, "tokens": steps * ids[:, 1:].numel(), "cpu_s": seconds}


@torch.no_grad()
def write(model: LlamaForCausalLM, prompts: torch.Tensor, temperature: float, longest: int) -> list[list[int]]:
    """Prompts of one length, each with its continuation up to </s>; temperature 0 is greedy."""
    how = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
    rows = model.generate(
        prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=longest, pad_token_id=EOS, **how
    ).tolist()
    return [row[: row.index(EOS) + 1] if EOS in row else row for row in rows]


def repeats(row: list[int], start: int, size: int = 5) -> list[bool]:
    """For every token: was it written (from `start` on, up to </s>) as the end of an n-gram that stood there before?"""
    seen: set[tuple[int, ...]] = set()
    marks = [False] * len(row)
    end = row.index(EOS) if EOS in row else len(row)
    for last in range(size - 1, end):
        gram = tuple(row[last - size + 1 : last + 1])
        marks[last] = last >= start and gram in seen
        seen.add(gram)
    return marks


def unlearn_loops(
    model: LlamaForCausalLM, domains: dict[str, list[list[int]]], rounds: int, seed: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Sequence-level unlikelihood (Welleck et al. 2019): what the model repeats in greedy text becomes less likely.

    A round writes 64 greedy texts after beginnings of training documents and takes 8 steps on 8 of them each, together
    with the plain loss on real text.
    """
    rate, kept = 3e-4, PROMPT_TOKENS
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.05, fused=True)
    choice, source, began = random.Random(seed), batches(domains, rng), time.process_time()
    for number in range(rounds):
        model.eval()
        prompts = [ids[:kept] for documents in domains.values() for ids in choice.sample(documents, 32)]
        choice.shuffle(prompts)
        rows = write(model, torch.tensor(prompts), 0, ANSWER_TOKENS)
        longest = max(map(len, rows))
        ids = torch.tensor([row + [EOS] * (longest - len(row)) for row in rows])
        marks = torch.tensor([repeats(row, kept) for row in ids.tolist()])
        model.train()
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 - number / rounds)
        for own, marked in zip(ids.split(8), marks.split(8), strict=True):
            real = torch.tensor(next(source))
            with torch.autocast("cpu", torch.bfloat16):
                plain = plain_loss(model(real[:, :-1], use_cache=False).logits.float(), real[:, 1:])
                logits = model(own[:, :-1], use_cache=False).logits.float()
            chances = logits.softmax(-1).gather(-1, own[:, 1:, None])[..., 0]
            unlikely = -(1 - chances).clamp(min=1e-4).log()
            loss = plain + (unlikely * marked[:, 1:]).sum() / marked[:, 1:].sum().clamp(min=1)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        share = marks.sum().item() / sum(len(row) - kept for row in rows)
        print(f"unlearn {number + 1}/{rounds} repeated {share:.3f}, plain loss {plain.item():.3f}", flush=True)
    model.eval()
    return {"rounds": rounds, "learning_rate": rate, "cpu_s": round(time.process_time() - began, 1)}


TEMPERATURES = (0.0, 0.0, 0.7, 1.0)


def target_texts(target: LlamaForCausalLM, documents: list[list[int]], count: int, seed: int) -> list[list[int]]:
    """What the target itself writes after the beginnings of training documents: greedy, cool and at temperature 1."""
    chosen = random.Random(seed).sample(documents, count)
    texts: list[list[int]] = []
    for number, first in enumerate(range(0, count, 64)):
        prompts = torch.tensor([ids[:17] for ids in chosen[first : first + 64]])
        texts += write(target, prompts, TEMPERATURES[number % len(TEMPERATURES)], 128)
        print(f"sampled {len(texts)}/{count}", flush=True)
    return texts


# --- files -----------------------------------------------------------------------------------------------------------


def write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")


def save(model: LlamaForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    """Weights in bfloat16, and settings without anything that would steer generation."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = LlamaForCausalLM(model.config)
    stored.load_state_dict(model.state_dict())
    stored.to(torch.bfloat16).save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # transformers leaves it to its owner alone
    write_json(folder / "generation_config.json", {"bos_token_id": BOS, "eos_token_id": EOS})
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2048,
    }
    write_json(folder / "tokenizer_config.json", settings)


def load(folder: Path) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def cut(text: str, domain: str, tokenizer: Tokenizer, rng: random.Random) -> str | None:
    """A beginning of 15 to 60 tokens: up to the end of a line of code, or of a word of prose."""
    ends = [m.start() for m in re.finditer(r"\n" if domain == "code" else r"(?<=\S) ", text)]
    fitting = [
        text[:end].rstrip()
        for end in ends
        if 15 <= len(tokenizer.encode(text[:end].rstrip(), add_special_tokens=False).ids) <= 60
    ]
    return rng.choice(fitting) if fitting else None


def pick(held: list[Encoded], domain: str, seed: int, per_origin: int = 5) -> list[Encoded]:
    """The held-out documents of a domain in a fixed random order, a few of each file before the rest."""
    group = [e for e in held if e.document.domain == domain]
    random.Random(seed).shuffle(group)
    met: Counter[str] = Counter()
    early, late = [], []
    for item in group:
        met[item.document.origin] += 1
        (early if met[item.document.origin] <= per_origin else late).append(item)
    return early + late


def write_prompts(path: Path, held: list[Encoded], tokenizer: Tokenizer, seed: int, each: int = 32) -> None:
    """Interleaved beginnings of held-out documents, none of them one of the evaluation's."""
    rng = random.Random(seed)
    columns = []
    for domain in DOMAINS:
        rest = pick(held, domain, seed)[EVALUATED // 2 :]
        texts = [p for e in rest if (p := cut(e.document.text, domain, tokenizer, rng))]
        rows = [
            {"id": f"demo-{domain}-{number:02}", "domain": domain, "language": "en", "prompt": text}
            for number, text in enumerate(texts[:each], 1)
        ]
        columns.append(rows)
    lines = [json.dumps(row, ensure_ascii=False) for pair in zip(*columns, strict=True) for row in pair]
    path.write_text("\n".join(lines) + "\n", "utf-8")


# --- evaluation ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def cross_entropy(model: LlamaForCausalLM, held: list[Encoded], domain: str, documents: int = 150) -> float:
    """Mean nats per token over held-out documents, each read alone, </s> included."""
    total = tokens = 0.0
    for item in [e for e in held if e.document.domain == domain][:documents]:
        ids = torch.tensor([item.ids])
        total += plain_loss(model(ids[:, :-1]).logits, ids[:, 1:]).item() * (len(item.ids) - 1)
        tokens += len(item.ids) - 1
    return round(total / tokens, 4)


def repeated(ids: list[int], start: int, size: int = 8) -> tuple[int, int]:
    """How many of the n-grams written after `start` had been written before, and how many there are."""
    seen, again = set(), 0
    count = max(0, len(ids) - start - size + 1)
    for first in range(start, start + count):
        gram = tuple(ids[first : first + size])
        again += gram in seen
        seen.add(gram)
    return again, count


@torch.no_grad()
def greedy_figures(target: LlamaForCausalLM, draft: LlamaForCausalLM, items: list[Encoded]) -> dict[str, Any]:
    """The target's greedy answers: how often the draft would have said the same, how they loop and end."""
    agreed = tokens = again = grams = ended = 0
    for item in items:
        (ids,) = write(target, torch.tensor([item.ids[:PROMPT_TOKENS]]), 0, ANSWER_TOKENS)
        guesses = draft(torch.tensor([ids[:-1]])).logits[0].argmax(-1).tolist()[PROMPT_TOKENS - 1 :]
        answer = ids[PROMPT_TOKENS:]
        agreed += sum(guess == token for guess, token in zip(guesses, answer, strict=True))
        tokens += len(answer)
        more, count = repeated(ids, PROMPT_TOKENS)
        again, grams, ended = again + more, grams + count, ended + (answer[-1] == EOS)
    return {
        "prompts": len(items),
        "tokens": tokens,
        "draft_top1_agreement": round(agreed / tokens, 4),
        "repeated_8grams": round(again / max(grams, 1), 4),
        "ended_by_eos": round(ended / len(items), 4),
    }


@torch.no_grad()
def token_ms(model: LlamaForCausalLM, tokens: int = 200) -> float:
    """Median milliseconds of a forward over one token, batch 1, cached context of 32 tokens and growing."""
    cache, times = transformers.DynamicCache(), []
    model(torch.full((1, 32), 65), cache=cache, use_cache=True)
    for _ in range(tokens):
        began = time.perf_counter()
        model(torch.full((1, 1), 65), cache=cache, use_cache=True)
        times.append(time.perf_counter() - began)
    return round(sorted(times)[tokens // 2] * 1000, 3)


def evaluate(out: Path, held: list[Encoded], seed: int) -> dict[str, Any]:
    """Figures of the pair as it lies on disk, computed in float32."""
    target, draft = load(out / "target"), load(out / "draft")
    items = {d: pick(held, d, seed)[: EVALUATED // 2] for d in DOMAINS}
    figures: dict[str, Any] = {"computed_in": "float32", "threads": torch.get_num_threads()}
    for name, model in (("target", target), ("draft", draft)):
        entropy = {f"{d}_cross_entropy": cross_entropy(model, held, d) for d in items}
        figures[name] = {"parameters": parameters(model), **entropy, "token_ms": token_ms(model)}
    figures["greedy"] = {d: greedy_figures(target, draft, group) for d, group in items.items()}
    figures["greedy"]["both"] = greedy_figures(target, draft, [*items["code"], *items["prose"]])
    return figures


# --- the whole -------------------------------------------------------------------------------------------------------


def train_pair(args: argparse.Namespace, corpus: Corpus) -> dict[str, Any]:
    """Tokenizer, target, draft, distilled draft, in that order; the files of both folders."""
    rng = np.random.default_rng(args.seed)
    tokenizer = train_tokenizer([d.text for d in corpus.train])
    encoded = encode(corpus.train, tokenizer)
    domains = {d: [e.ids for e in encoded if e.document.domain == d] for d in DOMAINS}
    texts = {d: {"documents": len(ids), "tokens": sum(map(len, ids))} for d, ids in domains.items()}
    print(texts, flush=True)

    target, draft = build("target"), build("draft")
    if args.from_target:
        target = load(args.from_target)
        earlier = json.loads((args.from_target.parent / "recipe.json").read_text("utf-8"))
        stages = {"target": earlier["stages"]["target"]}
    else:
        stages = {"target": train(target, "target", batches(domains, rng), args.target_steps, args.target_rate)}
    stages["unlearned"] = unlearn_loops(target, domains, args.unlearn_rounds, args.seed, rng)
    save(target, tokenizer, args.out / "target")
    stages["draft"] = train(draft, "draft", batches(domains, rng), args.draft_steps, 4e-3)
    began = time.process_time()
    written = {d: target_texts(target, ids, args.samples, args.seed) for d, ids in domains.items()}
    stages["samples"] = {"texts": 2 * args.samples, "cpu_s": round(time.process_time() - began, 1)}
    mixed = {d: written[d] + random.Random(args.seed).sample(domains[d], args.samples) for d in DOMAINS}
    stages["distilled"] = train(draft, "distilled", batches(mixed, rng), args.distil_steps, 2e-3, teacher=target)
    save(draft, tokenizer, args.out / "draft")
    return {"training_text": texts, "stages": stages}


def describe(args: argparse.Namespace, corpus: Corpus, trained: dict[str, Any]) -> dict[str, Any]:
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    versions |= {"transformers": transformers.__version__, "tokenizers": tokenizers.__version__}
    return {
        "seed": args.seed,
        "threads": args.threads,
        "restarted_from_stored_target": args.from_target is not None,
        "sources": [asdict(source) for source in SOURCES],
        "text_sha256": corpus.sha256,
        "held_out": "files and Jargon File entries whose name's SHA-256 begins with a byte below 12",
        "vocabulary": VOCAB,
        "batch": [f"one window of {WINDOW} tokens of {d}" for d in DOMAINS],
        "shapes": {
            k: dict(zip(("hidden", "layers", "heads", "kv_heads", "intermediate"), v, strict=True))
            for k, v in SHAPES.items()
        },
        "optimizer": "AdamW, betas 0.9 and 0.95, weight decay 0.05, linear decay to 0, bfloat16 autocast",
        **trained,
        "versions": versions,
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True, help="folder the Debian packages are unpacked in")
    parser.add_argument("--download", action="store_true", help="fetch and unpack them there first (apt-get download)")
    parser.add_argument("--any-text", action="store_true", help="go on although the text is not the pinned one")
    parser.add_argument("--out", type=Path, default=Path("catalog/demo"))
    parser.add_argument("--evaluate", action="store_true", help="only write the prompts and evaluate the pair in --out")
    parser.add_argument("--smoke", action="store_true", help="a hundredth of the steps, to prove the script")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--target-steps", type=int, default=12500)
    parser.add_argument("--target-rate", type=float, default=2e-3)
    parser.add_argument(
        "--from-target", type=Path, metavar="FOLDER", help="a target trained before, its recipe beside it"
    )
    parser.add_argument(
        "--unlearn-rounds", type=int, default=30, help="rounds against loops in the target's greedy text"
    )
    parser.add_argument("--draft-steps", type=int, default=5000)
    parser.add_argument(
        "--samples", type=int, default=1024, help="texts the target writes per domain for the distillation"
    )
    parser.add_argument("--distil-steps", type=int, default=4000)
    args = parser.parse_args()
    if args.smoke:
        args.target_steps, args.draft_steps, args.distil_steps = 130, 100, 100
        args.samples, args.unlearn_rounds = 64, 2
    return args


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    if args.download:
        download(args.texts)
    corpus = read_corpus(args.texts)
    print(f"{len(corpus.train)} + {len(corpus.held)} documents, sha256 {corpus.sha256}", flush=True)
    if corpus.sha256 != TEXT_SHA256 and not args.any_text:
        raise SystemExit(f"the text is not the pinned one ({TEXT_SHA256}); --any-text trains on it all the same")
    recipe = args.out / "recipe.json"
    if args.evaluate:
        description = json.loads(recipe.read_text("utf-8"))
    else:
        description = describe(args, corpus, train_pair(args, corpus))
    tokenizer = Tokenizer.from_file(str(args.out / "target" / "tokenizer.json"))
    assert len(AutoTokenizer.from_pretrained(args.out / "draft")) == VOCAB
    held = encode(corpus.held, tokenizer)
    write_prompts(args.out / "prompts.jsonl", held, tokenizer, args.seed)
    description["evaluation"] = evaluate(args.out, held, args.seed)
    write_json(recipe, description)
    print(json.dumps(description["evaluation"], indent=2))


if __name__ == "__main__":
    main()
