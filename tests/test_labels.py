"""NVTX texts taken apart: XLA's key=value payloads, and everything that is none."""

from __future__ import annotations

import pytest

from nsysoverlap.steps.labels import Label, parse_label
from nsysoverlap.trace.load import read_trace

from .traces import h200, h200_names


@pytest.mark.parametrize(
    ("text", "op", "name"),
    [
        ("Thunk:#hlo_op=copy-start.3#", "copy-start.3", ""),
        ("Thunk:#hlo_op=copy-start.4,unique_hlo_op_id=21474836869#", "copy-start.4", ""),
        (
            "Thunk:#name=jit(train_step)/jvp()/slice,hlo_op=wrapped_slice.55,unique_hlo_op_id=7#",
            "wrapped_slice.55",
            "jit(train_step)/jvp()/slice",
        ),
        # The order of keys is not ours to rely on.
        ("Thunk:#unique_hlo_op_id=7,hlo_op=slice.1,name=jit(f)#", "slice.1", "jit(f)"),
        ("Thunk:#name=jit(f)/add#", "jit(f)/add", "jit(f)/add"),
        ("Thunk:#name=jit(f)/add,hlo_op=#", "jit(f)/add", "jit(f)/add"),
        ("XlaModule:#hlo_module=jit_train_step,program_id=1562#", "jit_train_step", ""),
        ("XlaModule:#prefix=jit(f),hlo_module=jit_f,program_id=1#", "jit_f", ""),
        ("TSL:Thunk:#hlo_op=a#", "a", ""),
        # Commas and equals signs inside values.
        ("Thunk:#name=f(a, b)[c,d]{e,f},hlo_op=x#", "x", "f(a, b)[c,d]{e,f}"),
        ("Thunk:#name=f(a,axis=0),hlo_op=x#", "x", "f(a,axis=0)"),
        ("Thunk:#name=f(axis=0, keepdims=True),hlo_op=x#", "x", "f(axis=0, keepdims=True)"),
        ("Thunk:#name=a=b=c,hlo_op=x#", "x", "a=b=c"),
        ("Thunk:#name=bsd,df->bsf,hlo_op=x#", "x", "bsd,df->bsf"),
        ("Thunk:#name=a#b,hlo_op=x#", "x", "a#b"),
        ("Thunk:#name=(hlo_op=inner),hlo_op=outer#", "outer", "(hlo_op=inner)"),
        ("Thunk:#name=two\nlines,hlo_op=x#", "x", "two\nlines"),
    ],
)
def test_payloads(text: str, op: str, name: str) -> None:
    label = parse_label(text)
    assert (label.op, label.name) == (op, name)


def test_unknown_keys_are_kept() -> None:
    label = parse_label("Thunk:#hlo_op=a,new.key-2=[1,2],_x=#")
    assert label.keys == {"hlo_op": "a", "new.key-2": "[1,2]", "_x": ""}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#",
        "##",
        "step 3",
        "load batch #3",
        "Thunk:#",
        "Thunk:##",
        "Thunk:#hlo_op=copy-start.3",
        "Thunk:#name=jit(f,hlo_op=copy-start.3#",
        "Thunk:#name=jit(f],hlo_op=copy-start.3#",
        "Thunk:#name=jit(f]),hlo_op=copy-start.3#",
        "Thunk:#name=f),hlo_op=copy-start.3#",
        "Thunk:#copy-start.3#",
        "Thunk:#copy-start.3,hlo_op=a#",
        "Thunk:#,hlo_op=a#",
        "Thunk:#=a#",
        "Thunk:hlo_op=a",
        "hlo_op=a",
        "my loader#name=mine#",
        "train#step_num=3#",
    ],
)
def test_all_else_stays_as_it_is(text: str) -> None:
    assert parse_label(text) == Label(text, "", {})


def test_without_any_known_key_the_text_is_the_operation() -> None:
    text = "Thunk:#program_id=4#"
    assert parse_label(text) == Label(text, "", {"program_id": "4"})


@pytest.mark.parametrize("name", h200_names())
def test_every_thunk_of_a_real_trace_has_an_operation(name: str) -> None:
    texts = [t for t in read_trace(h200(name)).host.texts if "#" in t]
    assert bool(texts) == ("jax" in name)
    for text in texts:
        label = parse_label(text)
        assert label.keys, text
        key = "hlo_module" if text.startswith("XlaModule") else "hlo_op"
        assert label.op == label.keys[key]
        assert not set(label.op) & set("#,=")
