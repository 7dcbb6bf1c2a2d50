"""Answers that students give: a solution's text, with a piece replaced by another."""

# {exercise: [(the piece, what stands there instead, words of the sentence that explains it)]}
WRONG_ANSWERS = {
    "gaussian": [
        (" - 0.5 * np.log(2 * np.pi)", "", "forgot -1/2 log(2 pi), which belongs to each"),
        (" - 0.5 * np.log(2 * np.pi), axis=-1)", ", axis=-1) - 0.5 * np.log(2 * np.pi)", "once"),
        ("0.5 * np.log(2", "np.log(2", "without its factor 1/2"),
        (", axis=-1)", ")", "sum over the batch as well"),
        (", axis=-1)", ", axis=0)", "sum over the batch, axis 0"),
        ("reduce_sum", "reduce_mean", "mean over the dimensions"),
        ("tf.reduce_sum(", "(lambda x, axis: x)(", "a number for each dimension"),
        (" - log_std", "", "forgot -log sigma"),
        (" - log_std", " + log_std", "add log sigma"),
        ("return ", "return -", "negative log-likelihood"),
        ("-0.5 * z**2", "-(z**2)", "forgot the 1/2"),
        ("-0.5 * z**2", "0.5 * z**2", "add the quadratic term"),
        ("tf.exp(log_std)", "tf.exp(0.5 * log_std)", "sigma where it should be sigma squared"),
        ("return tf.reduce_sum", "return tf.exp(tf.reduce_sum", "Line 9 is not Python yet"),
        ("return ", "", "Is a `return` missing?"),
        ("/ tf.exp(log_std)", "/ np.exp(log_std)", "but not their gradient"),
        ("(x - mu)", "(x - tf.stop_gradient(mu))", "but not their gradient"),
    ],
    "policy": [
        (
            "layers.Dense(act_dim)",
            'layers.Dense(act_dim, activation="tanh")',
            "output goes through",
        ),
        ('activation="tanh"', 'activation="relu"', "hidden layers use relu"),
        (', activation="tanh"', "", "no activation"),
        ("Constant(-0.5)", "Constant(0.5)", "the sign is missing"),
        ("Constant(-0.5)", "Zeros()", "starts at 0"),
        (
            "self.add_weight(\n            shape=(act_dim,), "
            'initializer=keras.initializers.Constant(-0.5), name="log_std"\n        )',
            "tf.Variable(tf.fill([act_dim], -0.5))",
            "not among trainable_variables",
        ),
        ("[keras.Input((obs_dim,)), *hidden", "[*hidden", "build the layers"),
        ("+ tf.exp(self.log_std) * noise", "+ self.log_std * noise", "log_std for sigma"),
        ("+ tf.exp(self.log_std) * noise", "+ noise", "not multiplied by sigma"),
        (
            "+ tf.exp(self.log_std) * noise",
            "+ tf.exp(2 * self.log_std) * noise",
            "multiply the noise by the variance",
        ),
        ("z**2 - self.log_std - ", "z**2 - ", "forgot -log sigma"),
        ("return tf.reduce_sum(-0.5", "return tf.reduce_mean(-0.5", "mean over the dimensions"),
        (
            "return self(obs) + tf.exp(self.log_std) * noise",
            "return tf.stop_gradient(self(obs) + tf.exp(self.log_std) * noise)",
            "gradient of sample does not reach all weights",
        ),
        ("return self(obs) +", "return self(obs).numpy() +", "gradient of sample does not reach"),
        ("tf.exp(self.log_std) * noise", "np.exp(self.log_std) * noise", "gradient of sample does"),
        ("(act - self(obs))", "(act - tf.stop_gradient(self(obs)))", "does not reach all weights"),
        (
            "return tf.reduce_sum(self.log_std + 0.5 + 0.5 * np.log(2 * np.pi))",
            "return float(tf.reduce_sum(self.log_std + 0.5 + 0.5 * np.log(2 * np.pi)))",
            "no gradient reaches log_std",
        ),
        ("reduce_sum(self.log_std", "reduce_sum(tf.stop_gradient(self.log_std)", "reaches log_std"),
        (
            "self.log_std + 0.5 + 0.5 * np.log(2 * np.pi)",
            "0.5 + 0.5 * np.log(2 * np.pi) + self.log_std",
            "write log_std first",
        ),
        ("self.log_std + 0.5 +", "self.log_std +", "forgot the 1/2"),
        ("reduce_sum(self.log_std +", "reduce_mean(self.log_std +", "mean over the dimensions"),
    ],
    "gae": [
        ("np.where(terminated", "np.where(terminated | truncated", "time limit (truncated) as an"),
        ("np.where(terminated, 0.0, next_val)", "next_val", "After termination nothing follows"),
        ("np.where(terminated", "np.where(truncated", "mixed up"),
        ("np.where(terminated", "np.where(terminated & ~truncated", "truncated at once"),
        ("~(terminated | truncated)", "~terminated", "where a time limit has ended"),
        ("~(terminated | truncated)", "~truncated", "where this one has terminated"),
        (" * goes_on[t]", "", "sum goes on into the next episode, which"),
        (
            "np.where(terminated, 0.0, next_val) - val\n    goes_on = ~(terminated | truncated)",
            "next_val - val\n    goes_on = np.ones(rew.shape)",
            "do not look at where episodes end",
        ),
        (
            "np.where(terminated, 0.0, next_val) - val\n    goes_on = ~(terminated | truncated)\n"
            "    adv = np.zeros_like(delta)\n    following = np.zeros(rew.shape[1])\n"
            "    for t in reversed(range(len(rew))):\n"
            "        following = delta[t] + gamma * lam * goes_on[t] * following",
            "next_val - val\n"
            "    adv = np.zeros_like(delta)\n    following = np.zeros(rew.shape[1])\n"
            "    for t in range(len(rew)):\n"
            "        following = delta[t] + gamma * lam * following",
            "the loop has to go backwards in time. Mind the ends",
        ),
        (
            "in reversed(range(len(rew))):\n"
            "        following = delta[t] + gamma * lam * goes_on[t] * following",
            "in range(len(rew)):\n"
            "        ended = (terminated | truncated)[t - 1] if t else False\n"
            "        following = delta[t] + gamma * lam * ~np.bool_(ended) * following",
            "the loop has to go backwards in time.",
        ),
        ("gamma * lam *", "gamma *", "weighted by gamma only"),
        ("gamma * lam *", "lam *", "weighted by lambda only"),
        (" - val", "", "forgot -V(s_t)"),
        ("0.0, next_val)", "0.0, np.concatenate([val[1:], next_val[-1:]]))", "V of the next row"),
        ("reversed(range(len(rew)))", "reversed(range(len(rew) - 1))", "last row stays 0"),
        ("return adv", "return adv + val", "what the value function is fitted to"),
        ("return adv", "return adv[::-1]", "Time runs backwards"),
        ("return adv", "return delta", "These are the deltas"),
        ("return adv", "return adv.sum(axis=1)", "the shape is [8]; it should be [8, 3]"),
    ],
    "clip": [
        ("return -", "return ", "minus is missing"),
        ("reduce_mean", "reduce_sum", "sum over the batch"),
        ("tf.minimum", "tf.maximum", "maximum of the two terms"),
        ("tf.minimum(ratio * adv, clipped * adv)", "clipped * adv", "clipped term alone"),
        ("tf.minimum(ratio * adv, clipped * adv)", "ratio * adv", "Nothing is clipped"),
        ("tf.exp(logp - logp_old)", "logp - logp_old", "difference of the logarithms"),
        ("tf.exp(logp - logp_old)", "logp / logp_old", "divide the logarithms"),
        ("logp - logp_old", "logp_old - logp", "upside down"),
        ("1 - clip_ratio, 1 + clip_ratio", "-clip_ratio, clip_ratio", "limits are 1 - eps"),
        ("1 - clip_ratio", "-np.inf", "NameError"),
        ("1 - clip_ratio", "0.0", "from above only"),
        ("tf.exp(logp -", "tf.exp(tf.stop_gradient(logp) -", "no gradient reaches logp"),
    ],
    "init": [
        ("6 / (fan_in + fan_out)", "6 / fan_in", "divide by fan_in alone"),
        ("np.sqrt(6 / (fan_in + fan_out))", "6 / (fan_in + fan_out)", "square root is missing"),
        ("6 / (fan_in", "2 / (fan_in", "standard deviation"),
        ("1 / np.sqrt(fan_in)", "1 / fan_in", "square root is missing"),
        ("1 / np.sqrt(fan_in)", "1 / np.sqrt(fan_out)", "you use fan_out"),
        (", rng.uniform(-limit, limit, fan_out)", ", np.zeros(fan_out)", "bias of 'torch' is 0"),
        ("return rng.uniform(-limit", "return rng.uniform(0", "spread evenly around 0"),
        ("rng.uniform(-limit, limit, shape), np", "rng.normal(0, limit, shape), np", "not uniform"),
        ("gain * (tall", "(tall", "gain is missing"),
        ("gain * (tall", "gain**2 * (tall", "gain^2"),
        ("np.linalg.qr(", "(lambda x: (x, None))(", "not a multiple of the identity"),
        ("max(shape), min(shape)", "shape[0], shape[1]", "shape [100, 100]; it should"),
        ("rng.normal(size", "np.random.default_rng(0).normal(size", "draw all numbers from rng"),
        (" if fan_in >= fan_out else kernel @ kernel.T", "", "W W^T if it is wide"),
        ("2 * np.eye", "np.eye", "is taken for 'glorot'"),
    ],
    "cg": [
        ("    return x", "    b -= b\n    return x", "belongs to the caller"),
        ("range(num_iters)", "range(num_iters - 1)", "one iteration too few"),
        ("range(num_iters)", "range(num_iters + 1)", "one iteration too many"),
        ("r + error / last_error * p", "r", "steepest descent"),
        ("error / last_error", "last_error / error", "upside down"),
        ("r + error", "r - error", "sign of the factor"),
        ("error / last_error * p", "p", "factor of p is always 1"),
        ("p @ h_p", "p @ p", "divided by p . p"),
        ("r = r - alpha", "r = r + alpha", "subtract it"),
        (
            "last_error, error = error, r @ r\n        p = r + error / last_error * p",
            "p = r + (r @ r) / error * p",
            "keep the r . r of the beginning",
        ),
        ("return x", "return -x", "sign of x"),
        ("        h_p = product(p)\n", "        h_p = product(p) + 0 * product(p)\n", "6 times"),
        ("r, p = b, b", "r, p = b - product(x), b", "With x = 0 the first residual is b"),
        ("        if error == 0:\n            break\n", "", "b = 0 gives nan"),
    ],
    "backup": [
        ("np.where(terminated", "np.where(terminated | truncated", "time limit (truncated) as"),
        ("np.where(terminated", "np.where(terminated & ~truncated", "terminal all the same"),
        ("np.where(terminated, 0.0, next_val)", "next_val", "terminal state has no future"),
        ("np.where(terminated", "np.where(truncated", "mixed up"),
        ("np.where(terminated, 0.0, next_val)", "next_val * terminated", "the other way round"),
        ("gamma * np", "np", "forgot gamma"),
        ("rew + gamma * np", "gamma * rew + gamma * np", "discount the reward"),
        ("rew + gamma", "rew * ~terminated + gamma", "drop the reward of the last step"),
        ("rew + ", "rew - ", "subtract the future"),
        (
            "return np.where((terminated | truncated)[:, None], final_obs, obs)",
            "return obs",
            "reset",
        ),
        ("(terminated | truncated)[", "terminated[", "After truncation the reset observation"),
        ("(terminated | truncated)[", "(terminated & truncated)[", "either is enough"),
        (
            "return np.where((terminated | truncated)[:, None], final_obs, obs)",
            "obs[terminated | truncated] = final_obs[terminated | truncated]\n    return obs",
            "write into obs",
        ),
    ],
    "bug": [
        ("return batch_size, batch_size", "return (batch_size,)", "rew is [batch], next_q is"),
        ("return batch_size, batch_size", "return batch_size, 1", "How does TensorFlow broadcast"),
        ("next_act], axis=-1))[:, 0]", "next_act], axis=-1))", "y is [batch, batch] still"),
        ('batch["act"]], axis=-1))[:, 0]', 'batch["act"]], axis=-1))', "Q(s, a) is [batch, 1]"),
        ("[:, 0]", "", "The bug is still there"),
        ("tf.reduce_mean(error**2)", "tf.reduce_sum(error**2)", "sum over the batch"),
        ("tf.reduce_mean(error**2)", "tf.reduce_mean(error) ** 2", "errors cancel out"),
        ("tf.reduce_mean(error**2)", "error**2", "error for each transition"),
        (' * (1 - batch["terminated"])', "", "(1 - terminated) is lost"),
        ("tf.stop_gradient(", "(", "gradient flows into the target networks"),
        (
            "tf.reduce_mean(error**2)",
            "tf.stop_gradient(tf.reduce_mean(error**2))",
            "around y alone",
        ),
        ("return -tf", "return tf", "do its worst"),
        (
            'pi(batch["obs"])]',
            'tf.stop_gradient(pi(batch["obs"]))]',
            "no gradient reaches the policy",
        ),
    ],
    "td3": [
        (
            "tf.clip_by_value(sigma * noise, -noise_clip, noise_clip)",
            "sigma * noise",
            "noise is not",
        ),
        (
            "tf.clip_by_value(act + epsilon, -limit, limit)",
            "act + epsilon",
            "action is not clipped",
        ),
        ("sigma * noise, -noise", "noise, -noise", "not multiplied by sigma"),
        (
            "tf.clip_by_value(sigma * noise, -noise_clip, noise_clip)",
            "sigma * tf.clip_by_value(noise, -noise_clip, noise_clip)",
            "clipped before it is multiplied",
        ),
        ("-limit, limit", "-1.0, 1.0", "its limit is `limit`"),
        ("tf.minimum", "tf.maximum", "larger value"),
        ("tf.minimum(next_q1, next_q2)", "(next_q1 + next_q2) / 2", "mean of the two values"),
        ("tf.minimum(next_q1, next_q2)", "next_q1", "first target Q-function only"),
        ("(1 - terminated)", "1", "factor (1 - terminated) is missing"),
        ("(1 - terminated)", "terminated", "and only there"),
        ("gamma * (1", "(1", "forgot gamma"),
        ("tf.stop_gradient(", "(", "gradient flows through y"),
        (" + tf.reduce_mean((q2 - y) ** 2)", "", "Q_2 is not in the loss"),
        (
            "tf.reduce_mean((q1 - y) ** 2) + tf.reduce_mean((q2 - y) ** 2)",
            "tf.reduce_mean((tf.minimum(q1, q2) - y) ** 2)",
            "smaller of Q_1 and Q_2",
        ),
        ("reduce_mean((q", "reduce_sum((q", "sum over the batch"),
        ("return -tf.reduce_mean", "return tf.reduce_mean", "look for the worst action"),
        ("return -tf.reduce_mean", "return -tf.reduce_sum", "sum over the batch"),
        ("(q2 - y)", "(tf.stop_gradient(q2) - y)", "does not reach both Q-functions"),
        ("reduce_mean(q1_pi)", "reduce_mean(tf.stop_gradient(q1_pi))", "no gradient reaches Q_1"),
    ],
    "temperature": [
        ("return -log", "return log", "minus is missing"),
        ("+ target_entropy", "- target_entropy", "subtract the target"),
        (" + target_entropy", "", "target entropy is missing"),
        ("-log_alpha *", "-tf.exp(log_alpha) *", "multiply by alpha"),
        ("reduce_mean(logp) +", "reduce_sum(logp) +", "sum log pi over the batch"),
        ("reduce_mean(logp)", "identity(logp)", "a number for each action"),
        (
            "tf.stop_gradient(tf.reduce_mean(logp) + target_entropy)",
            "(tf.reduce_mean(logp) + target_entropy)",
            "gradient reaches the policy",
        ),
        ("-log_alpha *", "-tf.stop_gradient(log_alpha) *", "No gradient reaches log_alpha"),
        ("-log_alpha *", "-1 *", "log alpha is not in the loss"),
    ],
    "repeat": [
        ("total += rew", "total = rew", "reward of the last step"),
        ("return obs, total", "return obs, total / self.times", "divide the sum by `times`"),
        ("            if terminated or truncated:\n                break\n", "", "after the end"),
        ("terminated or truncated", "terminated", "after the end"),
        (
            "total += rew\n            if terminated or truncated:\n                break\n",
            "if terminated or truncated:\n                break\n            total += rew\n",
            "before you leave the loop",
        ),
        (
            "total, terminated, truncated",
            "total, terminated or truncated, False",
            "nothing follows",
        ),
        ("total, terminated, truncated", "total, terminated, False", "Truncation is lost"),
        ("total, terminated, truncated", "total, truncated, terminated", "swapped"),
        ("range(self.times)", "range(self.times + 1)", "One step too many"),
        ("range(self.times)", "range(max(self.times - 1, 1))", "One step too few"),
        ("range(self.times)", "range(1)", "once only"),
        (
            "return obs, total, terminated, truncated, info",
            "return obs, total, terminated, info",
            "5 things",
        ),
        # A sum that is never set back, as if it were set to 0 in __init__ only.
        (
            "total += rew",
            'self.total = total = getattr(self, "total", 0.0) + rew',
            "not in __init__",
        ),
        (
            "    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:\n"
            "        total = 0.0\n"
            "        for _ in range(self.times):\n"
            "            obs, rew, terminated, truncated, info = self.env.step(action)\n"
            "            total += rew\n",
            "    def reset(self, **kwargs):\n"
            "        self.total = 0.0\n"
            "        return self.env.reset(**kwargs)\n\n"
            "    def step(self, action):\n"
            "        for _ in range(self.times):\n"
            "            obs, rew, terminated, truncated, info = self.env.step(action)\n"
            "            self.total = total = self.total + rew\n",
            "not in reset",
        ),
    ],
    "ranks": [
        ("range(rank * num_envs, (rank + 1) * num_envs)", "range(num_envs)", "all ranks would see"),
        (
            "range(rank * num_envs, (rank + 1) * num_envs)",
            "range(rank, size * num_envs, size)",
            "deal the environments out",
        ),
        (
            "range(rank * num_envs, (rank + 1) * num_envs)",
            "range(rank, rank + num_envs)",
            "overlap",
        ),
        ("(rank + 1) * num_envs", "(rank + 1) * num_envs - 1", "range leaves out its end"),
        ("int(np.random.SeedSequence([seed, i]).generate_state(1)[0])", "seed + i", "independent"),
        (
            "int(np.random.SeedSequence([seed, i]).generate_state(1)[0])",
            "10 * seed + i",
            "Environment 0 of the run with seed 1 has the same seed as environment 10 of the run "
            "with seed 0",
        ),
        (
            "int(np.random.SeedSequence([seed, i]).generate_state(1)[0])",
            "1000 * seed + i",
            "independent",
        ),
        (
            "int(np.random.SeedSequence([seed, i]).generate_state(1)[0])",
            "seed + 1000 * i",
            "independent",
        ),
        (
            "int(np.random.SeedSequence([seed, i]).generate_state(1)[0])",
            "seed + 10_000 * i",
            "independent",
        ),
        (
            "int(np.random.SeedSequence([seed, i]).generate_state(1)[0])",
            "int(np.random.SeedSequence([seed, i]).generate_state(1)[0]) - 2**31",
            "has a negative one",
        ),
        ("int(np.random.SeedSequence([seed, i]).generate_state(1)[0])", "seed", "needs its own"),
        (
            "[seed, i]).generate_state(1)[0]) for i in indices",
            "[seed, i]).generate_state(1)[0]) for i in range(len(indices))",
            "its place in the list",
        ),
        ("SeedSequence([seed, i])", "SeedSequence([seed, indices[0], i])", "depend on the layout"),
        ("SeedSequence([seed, i])", "SeedSequence()", "must not depend on anything but"),
        (
            "return total / count if count else np.nan",
            "return np.mean([x.mean() for x in returns if len(x)])",
            "mean of the ranks' means",
        ),
        (
            "return total / count if count else np.nan",
            "return total / len(returns)",
            "number of ranks",
        ),
        (" if count else np.nan", " if count else 0.0", "nan is expected"),
    ],
}

# Other ways to write the same: {exercise: [(a piece of the solution, what stands there instead)]}
RIGHT_ANSWERS = {
    "gaussian": [
        ("/ tf.exp(log_std)", "/ (tf.exp(log_std) + 1e-8)"),
        ("0.5 * np.log(2 * np.pi)", "tf.math.log(tf.sqrt(2 * np.pi))"),
    ],
    "policy": [
        (
            "self.add_weight(\n            shape=(act_dim,), "
            'initializer=keras.initializers.Constant(-0.5), name="log_std"\n        )',
            "keras.Variable(np.full(act_dim, -0.5, np.float32))",
        ),
        ("-0.5 * z**2 -", "-tf.square(z) / 2 -"),
    ],
    "gae": [
        ("np.where(terminated, 0.0, next_val)", "next_val * (1 - terminated)"),
        ("~(terminated | truncated)", "1 - np.logical_or(terminated, truncated)"),
        ("return adv", "return adv.astype(np.float32)"),
        ("return adv", "return adv.tolist()"),
    ],
    "clip": [
        (
            "tf.minimum(ratio * adv, clipped * adv)",
            "tf.where(adv > 0, tf.minimum(ratio, 1 + "
            "clip_ratio), tf.maximum(ratio, 1 - clip_ratio)) * adv",
        ),
        ("-tf.reduce_mean(tf.minimum(", "tf.reduce_mean(-tf.minimum("),
    ],
    "init": [
        ("np.sqrt(6 / (fan_in + fan_out))", "np.sqrt(3) * np.sqrt(2 / (fan_in + fan_out))"),
        ("if bias.any()", "if np.abs(bias).max() > 0"),
    ],
    "cg": [
        (
            "        if error == 0:\n            break\n",
            "        if error < 1e-12:\n            break\n",
        ),
        ("if error == 0:", "if np.allclose(r, 0):"),
    ],
    "backup": [
        ("np.where(terminated, 0.0, next_val)", "(1 - terminated.astype(float)) * next_val"),
        (
            "    return np.where((terminated | truncated)[:, None], final_obs, obs)",
            "    result = "
            "obs.copy()\n    ended = terminated | truncated\n    result[ended] = final_obs[ended]\n"
            "    return result",
        ),
    ],
    "bug": [
        ("[:, 0]", "[..., -1]"),
        (
            "next_act], axis=-1))[:, 0]\n",
            "next_act], axis=-1))\n    next_q = tf.squeeze(next_q, axis=-1)\n",
        ),
    ],
    "td3": [
        ("(1 - terminated) * next_val", "tf.where(terminated > 0.5, 0.0, next_val)"),
        (
            "tf.reduce_mean((q1 - y) ** 2) + tf.reduce_mean((q2 - y) ** 2)",
            "tf.reduce_mean((q1 - y) ** 2 + (q2 - y) ** 2)",
        ),
    ],
    "temperature": [
        ("tf.reduce_mean(logp) + target_entropy", "tf.reduce_mean(logp + target_entropy)"),
        (
            "-log_alpha * tf.stop_gradient(tf.reduce_mean(logp) + target_entropy)",
            "-tf.reduce_mean(log_alpha * tf.stop_gradient(logp + target_entropy))",
        ),
    ],
    "repeat": [
        ("range(self.times)", "[None] * self.times"),
        ("return obs, total", "return obs, int(total)"),
    ],
    "ranks": [
        (
            "[*range(rank * num_envs, (rank + 1) * num_envs)]",
            "np.arange(num_envs) + rank * num_envs",
        ),
        ("int(np.random.SeedSequence([seed, i]).generate_state(1)[0])", "seed * 1_000_003 + i"),
        ("SeedSequence([seed, i])", "SeedSequence([i, seed])"),
        ("SeedSequence([seed, i])", "SeedSequence(seed, spawn_key=(i,))"),
        ("SeedSequence([seed, i])", "SeedSequence([7, seed, i])"),
        ("total / count if count else np.nan", 'total / count if count else float("nan")'),
    ],
}
