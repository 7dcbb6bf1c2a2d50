"""Ask a saved agent what it expects of its actions; give its tf2_save."""

import sys

import numpy as np
import tensorflow as tf

if __name__ == "__main__":
    model = tf.saved_model.load(sys.argv[1])
    x = np.array([[1, 0, 0], [-1, 0, 0]], np.float32)  # Pendulum: upright and at rest; hanging
    noise = np.zeros((2, 1), np.float32)  # zeros: the deterministic action
    a = model.policy(x, noise)["pi"]
    print("actions in [-1, 1]:", a.numpy()[:, 0])
    q = model.q(x, a)
    print("q1:", q["q1"].numpy())
    print("q2:", q["q2"].numpy())
