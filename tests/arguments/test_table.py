"""One home for each shared argument: its row, its type, its place in signatures and in `help`."""

import inspect
import pydoc
from inspect import Parameter

import pytest

import spinup_tf2
from spinup_tf2.algos import ALGORITHMS, load, module_of
from spinup_tf2.arguments.signatures import Name, read_signature
from spinup_tf2.arguments.table import ARGUMENTS, OPTIONS, OnPolicyOptions, Options

ON_POLICY = ("vpg", "trpo", "ppo", "ppg", "a2c")
OWN_DEFAULTS = {("a2c", "num_envs"): 16}  # others than the table's

every_algorithm = pytest.mark.parametrize("algorithm", [*ALGORITHMS])


def own_parameters(algorithm):
    """Names of the parameters that stand literally in an algorithm's signature, in order."""
    code = inspect.unwrap(load(algorithm)).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def options_of(algorithm):
    return [*(OnPolicyOptions if algorithm in ON_POLICY else Options).__annotations__]


def test_every_option_has_a_row_and_a_type():
    assert [*OnPolicyOptions.__annotations__] == [*OPTIONS]
    assert [*Options.__annotations__] == [*OPTIONS][: len(Options.__annotations__)]


@pytest.mark.parametrize("name", OPTIONS)
def test_every_row_of_an_option_is_complete(name):
    row = ARGUMENTS[name]
    assert row.text.strip()
    assert row.rule.is_valid(row.default)


@every_algorithm
def test_options_are_not_in_an_algorithms_own_signature(algorithm):
    """Nor do they have another default than the table's, but where it is known."""
    assert not {*own_parameters(algorithm)} & {*options_of(algorithm)}
    parameters = inspect.signature(load(algorithm)).parameters
    for name in options_of(algorithm):
        expected = OWN_DEFAULTS.get((algorithm, name), OPTIONS[name].default)
        assert parameters[name].default == expected, name


@every_algorithm
def test_the_signature_shows_all_arguments(algorithm):
    """The algorithm's own, then the options, by keyword only; nothing is left of `**options`."""
    function = getattr(spinup_tf2, algorithm)
    parameters = inspect.signature(function).parameters
    assert [*parameters] == [*own_parameters(algorithm), *options_of(algorithm)]
    for name in options_of(algorithm):
        assert parameters[name].kind is Parameter.KEYWORD_ONLY
        assert parameters[name].annotation == OnPolicyOptions.__annotations__[name]
    shown = pydoc.render_doc(function, renderer=pydoc.plaintext)
    heading, doc = shown.split("\n\n", 1)[1].split("\n    ", 1)
    for name in parameters:
        assert f"{name}:" in heading, name
        assert f"        {name}" in doc, name


@every_algorithm
def test_the_signature_that_is_read_is_the_one_that_is_called(algorithm):
    """The command line reads it from the source, without TensorFlow."""
    read = read_signature(module_of(algorithm), algorithm)
    function = load(algorithm)
    called = {
        name: p.default
        for name, p in inspect.signature(function).parameters.items()
        if p.default is not Parameter.empty
    }
    plain = {name: x for name, x in read.defaults.items() if not isinstance(x, Name)}
    assert [*read.defaults] == [*called]
    assert plain == {name: called[name] for name in plain}
    assert {*called} - {*plain} == {"actor_critic"}
    assert read.doc == function.__doc__


@every_algorithm
def test_an_unknown_argument_is_named(algorithm):
    with pytest.raises(TypeError, match="'steps_per_epcoh'"):
        load(algorithm)("CartPole-v1", steps_per_epcoh=4000)
