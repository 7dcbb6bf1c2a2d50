"""Answers that students give: edits of a solution, as `checking.solution` takes them.

The mistakes in the checks' own tables are not here: each of them is tried as an answer, too.
"""

SEED = "int(np.random.SeedSequence([seed, i]).generate_state(1)[0])"

# {exercise: {the edits: words of the sentence that explains what is wrong}}
WRONG_ANSWERS = {
    "backup": {
        "return np.where((terminated | truncated)[:, None], => ended = terminated | truncated; "
        "obs[ended] = final_obs[ended]; return np.where(ended[:, None],": "write into obs"
    },
    "gaussian": {
        "return tf.reduce_sum => return tf.exp(tf.reduce_sum": "is not Python yet",
        "return tf => tf": "Is a `return` missing?",
        "/ tf.exp(log_std) => / np.exp(log_std)": "entry [4] is -4",
        "(x - mu) => (x - tf.stop_gradient(mu))": "no gradient reaches",
    },
    "policy": {
        'self.add_weight(shape=(act_dim,), initializer=start, name="log_std") => '
        "tf.Variable(tf.fill([act_dim], -0.5))": "not among trainable_variables",
        "[keras.Input((obs_dim,)), *hidden => [*hidden": "have to be built in",
        "return self(obs) + tf.exp(self.log_std) => "
        "return tf.stop_gradient(self(obs)) + self.log_std": "sigma is exp(log_std)",
        "return self(obs) + => return self(obs).numpy() +": "no gradient reaches",
        "(act - self(obs)) => (act - tf.stop_gradient(self(obs)))": "no gradient reaches",
        "self.log_std + 0.5 + 0.5 * np.log(2 * np.pi) => "
        "0.5 + 0.5 * np.log(2 * np.pi) + self.log_std": "no gradient reaches",
    },
    "gae": {"return adv => return adv.sum(axis=1)": "the shape is [8]; it should be [8, 3]"},
    "clip": {
        "1 - clip_ratio => -inf": "NameError",
        "tf.exp(logp - => tf.exp(tf.stop_gradient(logp) -": "no gradient reaches",
    },
    "cg": {
        "return x => b -= b; return x": "belongs to the caller",
        "h_p = product(p) => h_p = product(p) + 0 * product(p)": "6 times",
        "r, p = b, b => r, p = b - product(x), b": "With x = 0 the first residual is b",
        "if error == 0: => if False:": "b = 0 gives nan",
    },
    "ranks": {
        f"{SEED} => seed + i": "independent",
        f"{SEED} => 10 * seed + i": "Environment 0 of the run with seed 1 has the same seed as "
        "environment 10 of the run with seed 0",
        f"{SEED} => seed + 10_000 * i": "independent",
        f"{SEED} => {SEED} - 2**31": "numbers of at least 0",
        f"{SEED} => seed": "needs its own",
        "for i in indices => for i in range(len(indices))": "number alone",
        "for i in indices => for i in indices[:1]": "it should be 4 numbers",
        "[seed, i] => [seed, indices[0], i]": "number alone",
        "SeedSequence([seed, i]) => SeedSequence()": "number alone",
        " if count else np.nan =>  if count else 0.0": "nan is expected",
    },
    "bug": {
        "return batch_size, batch_size => return (batch_size,)": "rew is [batch], next_q is",
        "return batch_size, batch_size => return batch_size, 1": "How does TensorFlow broadcast",
        "tf.stop_gradient( => (": "constant here",
        "tf.reduce_mean(error**2) => tf.stop_gradient(tf.reduce_mean(error**2))": "no gradient",
        'pi(batch["obs"])] => tf.stop_gradient(pi(batch["obs"]))]': "no gradient reaches",
    },
    "dqn": {
        "tf.stop_gradient( => (": "constant here",
        "tf.gather(q, act => tf.gather(tf.stop_gradient(q), act": "no gradient reaches",
    },
    "td3": {
        "tf.stop_gradient( => (": "constant here",
        "(q2 - y) => (tf.stop_gradient(q2) - y)": "no gradient reaches",
        "reduce_mean(q1_pi) => reduce_mean(tf.stop_gradient(q1_pi))": "no gradient reaches",
    },
    "temperature": {
        "tf.stop_gradient( => (": "constant here",
        "-log_alpha * => -tf.stop_gradient(log_alpha) *": "no gradient reaches",
    },
    "init": {
        "6 / (fan_in + fan_out) => 6 / fan_in": "kernel of 'glorot' reaches to 0.1732; the limit "
        "should be 0.1414",
        "1 / np.sqrt(fan_in) => 1 / fan_in": "the limit should be",
        ", rng.uniform(-limit, limit, fan_out) => , np.zeros(fan_out)": "bias of 'torch' reaches",
        "return rng.uniform(-limit => return rng.uniform(0": "is not uniform around 0",
        "gain * (tall => (tall": "With gain 0.5 the diagonal of W^T W should be 0.25; it is 1",
        "np.linalg.qr( => (lambda x: (x, None))(": "not a multiple of the identity",
        "max(shape), min(shape) => shape[0], shape[1]": "shape [100, 100]; it should",
        "rng.normal(size => np.random.default_rng(0).normal(size": "draw all numbers from rng",
        " if fan_in >= fan_out else kernel @ kernel.T => ": "W W^T if it is wide",
    },
    "repeat": {
        "if terminated or truncated: => if False:": "after the end",
        "terminated or truncated => terminated": "after the end",
        "total, terminated, truncated, info => total, terminated, info": "5 things",
        "self.env.step(action) => self.env.step(1)": "the environment got [1",
    },
}

# Other ways to write the same: {exercise: the edits of each}
RIGHT_ANSWERS = {
    "backup": [
        "np.where(terminated, 0.0, next_val) => (1 - terminated.astype(float)) * next_val",
        "return np.where((terminated | truncated)[:, None], final_obs, obs) => obs = obs.copy(); "
        "ended = terminated | truncated; obs[ended] = final_obs[ended]; return obs",
    ],
    "gaussian": [
        "/ tf.exp(log_std) => / (tf.exp(log_std) + 1e-8)",
        "0.5 * np.log(2 * np.pi) => tf.math.log(tf.sqrt(2 * np.pi))",
    ],
    "policy": [
        'self.add_weight(shape=(act_dim,), initializer=start, name="log_std") => '
        "keras.Variable(np.full(act_dim, -0.5, np.float32))",
        "-0.5 * z**2 - => -tf.square(z) / 2 -",
    ],
    "gae": [
        "np.where(terminated, 0.0, next_val) => next_val * (1 - terminated)",
        "~(terminated | truncated) => 1 - np.logical_or(terminated, truncated)",
        "return adv => return adv.astype(np.float32)",
        "return adv => return adv.tolist()",
    ],
    "clip": [
        "tf.minimum(ratio * adv, clipped * adv) => tf.where(adv > 0, tf.minimum(ratio, 1 + "
        "clip_ratio), tf.maximum(ratio, 1 - clip_ratio)) * adv",
        "-tf.reduce_mean(tf.minimum( => tf.reduce_mean(-tf.minimum(",
    ],
    "cg": ["if error == 0: => if error < 1e-12:", "if error == 0: => if np.allclose(r, 0):"],
    "ranks": [
        "[*range(first, first + num_envs)] => np.arange(num_envs) + rank * num_envs",
        f"{SEED} => seed * 1_000_003 + i",
        "[seed, i] => [i, seed]",
        "[seed, i] => seed, spawn_key=(i,)",
        "[seed, i] => [7, seed, i]",
        'else np.nan => else float("nan")',
    ],
    "bug": [
        "[:, 0] => [..., -1]",
        "next_act], axis=-1))[:, 0] => next_act], axis=-1)); next_q = tf.squeeze(next_q, axis=-1)",
    ],
    "dqn": [
        "(1 - terminated) * next_val => tf.where(terminated > 0.5, 0.0, next_val)",
        "error <= 1 => error < 1",
    ],
    "td3": [
        "(1 - terminated) * next_val => tf.where(terminated > 0.5, 0.0, next_val)",
        "** 2) + tf.reduce_mean((q2 => ** 2 + (q2",
    ],
    "temperature": [
        "tf.reduce_mean(logp) + target_entropy => tf.reduce_mean(logp + target_entropy)",
        "-log_alpha * tf.stop_gradient(tf.reduce_mean(logp) + target_entropy) => "
        "-tf.reduce_mean(log_alpha * tf.stop_gradient(logp + target_entropy))",
    ],
    "init": ["if bias.any() => if np.abs(bias).max() > 0"],
    "repeat": [
        "range(self.times) => [None] * self.times",
        "return obs, total => return obs, int(total)",
    ],
}
