"""Use a saved policy with TensorFlow alone; give its tf2_save."""

import sys

import numpy as np
import tensorflow as tf

if __name__ == "__main__":
    model = tf.saved_model.load(sys.argv[1])
    x = np.zeros((2, 4), np.float32)  # two observations of CartPole
    noise = np.random.default_rng(0).gumbel(size=(2, 2)).astype(np.float32)
    outputs = model.policy(x, noise)
    print("samples:", outputs["pi"].numpy())
    print("most likely:", outputs["mu"].numpy())
    print("log-probabilities of 1:", model.logp(x, np.ones(2, np.int32)).numpy())
    print("values:", outputs["v"].numpy())
