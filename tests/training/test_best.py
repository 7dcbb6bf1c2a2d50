"""Which weights are kept as the best."""

import keras
import numpy as np
import pytest

from spinup_tf2.training.rows import BestWeights, score_of


class Networks:
    """Two variables, which every epoch of `train` makes equal to its number."""

    def __init__(self):
        self.variables = [keras.Variable(np.zeros(shape)) for shape in ((2, 3), (4,))]
        self.best = BestWeights(self.variables)

    def become(self, value):
        for variable in self.variables:
            variable.assign(np.full(variable.shape, value))

    def train(self, epoch, score):
        """Act with the weights of this number, learn, and hear how good the acting was."""
        self.become(epoch)
        self.best.note_acting()
        self.become(epoch + 0.5)
        self.best.judge(score, epoch)

    def kept(self):
        """The number that all the best weights have."""
        [number] = {float(x) for weights in self.best.weights for x in weights.ravel()}
        assert [x.shape for x in self.best.weights] == [(2, 3), (4,)]
        return number


def test_the_best_weights_are_those_that_acted_not_those_that_were_learned_then():
    networks = Networks()
    for epoch, ret in enumerate((10.0, 30.0, 20.0, 29.0), 1):
        networks.train(epoch, [0.0, ret])
    assert networks.kept() == 2
    assert networks.best.record == dict(score=30.0, success=0.0, epoch=2)


def test_without_a_score_they_are_the_first():
    networks = Networks()
    for epoch in (1, 2):
        networks.train(epoch, None)
    assert networks.kept() == 0
    assert networks.best.record == dict(score=None, success=None, epoch=None)
    networks.train(3, [0.0, -5.0])
    assert networks.kept() == 3
    networks.train(4, None)
    assert networks.kept() == 3


def test_success_counts_for_more_than_the_return():
    networks = Networks()
    for epoch, score in enumerate(([0.5, 1.0], [0.4, 99.0], [0.5, 2.0], [0.6, 0.0]), 1):
        networks.train(epoch, score)
        assert networks.kept() == {1: 1, 2: 1, 3: 3, 4: 4}[epoch]


def test_what_a_checkpoint_held_is_to_be_surpassed():
    networks = Networks()
    weights = [np.full(variable.shape, 7.0) for variable in networks.variables]
    networks.best.restore(dict(score=50.0, success=0.25, epoch=12), weights, [])
    networks.train(13, [0.25, 49.0])
    assert networks.kept() == 7
    assert networks.best.record["epoch"] == 12
    networks.train(14, [0.25, 51.0])
    assert networks.kept() == 14


def test_those_that_a_checkpoint_held_for_the_next_score_are_judged():
    networks = Networks()
    acting = [np.full(variable.shape, 3.0) for variable in networks.variables]
    networks.best.restore(dict(score=None, success=None, epoch=None), networks.best.weights, acting)
    networks.best.judge([0.0, 1.0], 4)
    assert networks.kept() == 3


@pytest.mark.parametrize(
    ("row", "tested", "score"),
    [
        (dict(AverageEpRet=3.0), False, [0.0, 3.0]),
        (dict(AverageEpRet=3.0, SuccessRate=0.5), False, [0.5, 3.0]),
        (dict(AverageEpRet=3.0, AverageTestEpRet=4.0, TestSuccessRate=0.25), True, [0.25, 4.0]),
        (dict(AverageEpRet=3.0, SuccessRate=0.5, AverageTestEpRet=4.0), True, [0.0, 4.0]),
        (dict(AverageEpRet=""), False, None),  # no episode has ended
        (dict(AverageEpRet=3.0, AverageTestEpRet=""), True, None),  # no test was due
        (dict(AverageEpRet=np.nan), False, None),
        (dict(AverageEpRet=-np.inf), False, None),
    ],
)
def test_what_an_epoch_is_judged_by(row, tested, score):
    assert score_of(row, tested) == score
