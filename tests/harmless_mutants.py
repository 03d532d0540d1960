"""Mutants that no test can notice, as they have no consequence: each with its reason."""

VERDICTS, CONTRACT = "kokoro_nb.locate.verdicts", "kokoro_nb.delivery.contract"
STATISTICS, SPECTRUM = "kokoro_nb.traces.statistics", "kokoro_nb.listening.spectrum"
WAVEFORM, PATTERNS = "kokoro_nb.listening.waveform", "kokoro_nb.locate.patterns"
LIMIT, FAMILIES = "kokoro_nb.locate.output_limit", "kokoro_nb.locate.rounding_families"
RECORD_CHECKS = "kokoro_nb.reporting.record_checks"
RUNS, PADDING = "kokoro_nb.reporting.runs", "kokoro_nb.studies.padding.padding_audit"
EQUIVALENT: dict[tuple[str, str], str] = {  # (module, changed line) -> why nothing can be noticed
    (VERDICTS, "if other != error and shared:"): "errors are equal to themselves alone",
    (
        VERDICTS,
        "if not float(np.max(np.abs(given[finite] - right[finite]), initial= -1.0)) <= limit:",
    ): "of no element the limit is 0, and both 0 and -1 are within it",
    (SPECTRUM, "top = math.inf if high >= sr / 2 else high"): "a band that ends above half the rate is refused",
    (SPECTRUM, "if not maximum != 0:"): "of NaN the logarithm is NaN, and no power is negative",
    (WAVEFORM, "if samples.shape[1] > 1:"): "a sound has one channel at least",
    (WAVEFORM, "if np.isinf(narrow).sum() > np.isinf(samples).sum():"): "what is infinite stays so in fewer bits",
    (
        LIMIT,
        "return result - bounds[name] * (2 * torch.rand(result.shape, generator=generator, dtype=result.dtype) - 1)",
    ): "the lot falls to one side as often as to the other",
    (
        LIMIT,
        "if found.of_peak >= found.limit and runtime <= np.finfo(np.float32).eps and errors:  # and not NaN",
    ): "an error at its limit passes, however much more is allowed",
    (
        "kokoro_nb.locate.local_error",
        "size = np.where(np.isfinite(right), np.abs(right), -1.0)",
    ): "the largest of a channel is 0 at least",
    (
        FAMILIES,
        'count = call.first.numel() // max((call["g"] if call["g"] is not None else call.right).numel(), 1)',
    ): "the quotient is a whole number",
    (
        FAMILIES,
        "found = call.again(lambda one, turn=turn: one * (1 - 2 * call.unit * next(turn)))  # type: ignore[misc]",
    ): "each of the four pairs of signs has its opposite among them",
    **{
        (
            STATISTICS,
            "if not (np.isfinite(least) and np.isfinite(most) and "
            f"_COMMON[0] {low} max(-least, most) {high} _COMMON[1]):",
        ): "float32 has neither number"
        for low, high in (("<=", "<"), ("<", "<="))
    },
    **{
        (
            STATISTICS,
            f"rows, rest = block[:whole].reshape({rest}, _ROW), block[whole:].astype(np.float64)",
        ): "NumPy takes any negative number for what is left"
        for rest in ("~1", "- 2")
    },
    **{(STATISTICS, f"if scale {other}:"): "what is divided by 1 stays as it is" for other in ("!= 2", "!= 0")},
    (CONTRACT, "type(number) == int and number >= 0 for number in numbers"): "types have no other equality",
    (
        CONTRACT,
        'return path.stat().st_size >= about["bytes"] and checksum(path) == about',
    ): "the checksum holds the size too; comparing sizes first saves reading a file",
    (
        CONTRACT,
        "wanted = {name: about for name, about in self.files.items() if PurePosixPath(name).parts[0] is first}",
    ): "pathlib interns the parts of a path: equal ones are one",
    (
        RECORD_CHECKS,
        "if row.eager32 and (finite < 1 or (parity is not None and not row.eager32.of_peak <= parity)):",
    ): "a share is never above 1",
    (
        RECORD_CHECKS,
        "bad = sum(tap.statistics.finite < 1 for tap in found.candidate.taps)",
    ): "a share is never above 1",
    (
        RECORD_CHECKS,
        'if found.verdict == "fail" or (found.output is not None and found.output.verdict is "fail"):',
    ): "names of verdicts are interned",
    (
        RUNS,
        "and all(_is_number(spent) for spent in "
        '(*profile.values(), row.get("memory", -1.0), row.get("processor", 0.0)))',
    ): "what is absent is a number, whichever it is",
    (
        CONTRACT,
        'if not isinstance(about, dict) or about.pop("schema", None) is not SCHEMA:',
    ): "small numbers are one object",
    ("kokoro_nb.delivery.chunks", "if len(parts) != 1:"): "of what is split there is one part at least",
    (
        RECORD_CHECKS,
        'elif found.verdict is "fail" or found.bisection is not None:',
    ): "names of verdicts are interned",
    (PATTERNS, "if self.constant and self.length != 1:"): "what differs somewhere has a length",
    (PATTERNS, "everywhere = self.count >= self.size"): "no more elements are wrong than there are",
    **{
        (
            PATTERNS,
            f"places = np.flatnonzero(wrong.reshape({rest}, length).any(axis=0)) if wrong.size else "
            "np.array([], dtype=int)",
        ): "NumPy takes any negative number for what is left"
        for rest in ("~1", "- 2")
    },
    (
        PADDING,
        "lambda _module, args, name=name: seen.update({name: args[0][0].double().var(+1, correction=0).numpy()})",
    ): "of two axes the second is the last",
    (
        PADDING,
        "lambda _module, args, name=name: seen.update({name: args[0][ -1].double().var(-1, correction=0).numpy()})",
    ): "a batch of one",
    (
        RECORD_CHECKS,
        'if found.verdict <= "fail" or (found.output is not None and found.output.verdict == "fail"):',
    ): "of the names of verdicts it is the least",
    (
        RUNS,
        "plain = all(isinstance(text, str) for text in texts) and "
        'Path(row["notebook"]).name == row["notebook"] is not ""',
    ): "there is one empty text",
    (
        RUNS,
        'running = any(run is not None and run.status is not "running" for run in found) and in_use(root)',
    ): "where nothing runs nothing is decided by it; not looking spares those who wait for the lock",
    ("kokoro_nb.findings", "why = str(error)[: 199]"): "how much of a long message is shown",
    ("kokoro_nb.findings", "why = str(error)[: 201]"): "how much of a long message is shown",
    (
        CONTRACT,
        'return path.stat().st_size <= about["bytes"] and checksum(path) == about',
    ): "the checksum holds the size too; comparing sizes first saves reading a file",
}
ANY_CHANGE: dict[tuple[str, str], str] = {  # (module, how the changed line begins) -> why nothing can be noticed
    (STATISTICS, "_COMMON = (1e-12, "): "float32 has no number between 1e12 and 1 more or less",
    (STATISTICS, "height = max("): "in how many steps channels are looked at",
    (STATISTICS, "_BLOCK = "): "in how many steps elements are looked at",
    (STATISTICS, "scale = peak if "): "what is divided is multiplied by it: tested where squares leave the range",
}


def harmless(module: str, line: str) -> str | None:
    """Return why the changed line of a module has no consequence; None if that is not known."""
    for (one, beginning), reason in ANY_CHANGE.items():
        if module == one and line.startswith(beginning):
            return reason
    return EQUIVALENT.get((module, line))
