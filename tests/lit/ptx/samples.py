#!/usr/bin/env python3
"""Asks ptxas for its verdict on sample instructions.

samples.py LIST [--ptxas PATH] > samples.txt     LIST has lines "TARGET INSTRUCTION" (make_samples prints them)
samples.py --check samples.txt [--ptxas PATH]    the same verdicts again? exit 1 with the differences

A line of samples.txt is "ok TARGET INSTRUCTION", "no TARGET INSTRUCTION" (ptxas refuses it) "lax ..." (ptxas refuses it,
Orrery takes it) or "strict ..." (the reverse); {f0..f63} stands for the registers f0 to f63. Each instruction is judged inside
frame.ptx, on the target named (sm_0 and targets below sm_90 stand for sm_90a).
"""
import argparse, os, re, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FRAME = open(os.path.join(HERE, "frame.ptx")).read()
FIRST = FRAME[: FRAME.index("INSTRUCTION")].count("\n") + 1


def framed(target, lines):
    return FRAME.replace("TARGET", target).replace("INSTRUCTION", "\n".join(lines))


def expanded(text):
    """{f0..f3} -> {f0, f1, f2, f3}"""
    return re.sub(r"\{(\w)0\.\.\1(\d+)\}", lambda m: "{" + ", ".join(m[1] + str(i) for i in range(int(m[2]) + 1)) + "}", text)


def judged_on(target):
    m = re.match(r"sm_(\d+)", target)
    return "sm_90a" if int(m[1]) < 90 or target == "sm_90" else target if target[-1] == "a" else target + "a"


def judge(ptxas, target, instructions, level=0):
    """For each instruction: None when ptxas accepts it, else its message."""
    verdict = [None] * len(instructions)
    while True:
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "s.ptx")
            with open(path, "w") as f:
                f.write(framed(target, [expanded(i) if v is None else "//" for i, v in zip(instructions, verdict)]))
            command = [ptxas, "-arch=" + target, "-O" + str(level), "-o", os.path.join(d, "o"), path]
            try:
                p = subprocess.run(command, capture_output=True, text=True, timeout=60)
            except subprocess.TimeoutExpired:
                p = subprocess.CompletedProcess(command, 1, "", "ptxas does not end")
        found = False
        for line, text in re.findall(r"line (\d+); (?:error|fatal)\s*: (.*)", p.stderr):
            n = int(line) - FIRST
            if 0 <= n < len(verdict) and verdict[n] is None:
                verdict[n] = text
                found = True
        if p.returncode == 0:
            return verdict
        if not found:
            return bisect(ptxas, target, instructions, verdict, p.stderr, level)


def bisect(ptxas, target, instructions, verdict, message, level):
    """ptxas gave no line: find the culprits by halves."""
    live = [i for i, v in enumerate(verdict) if v is None]
    if not live:
        raise SystemExit("ptxas refuses the frame itself: " + message)
    if len(live) == 1 and level == 0:  # -O0 runs out of registers on the largest fragments
        verdict[live[0]] = judge(ptxas, target, [instructions[live[0]]], 3)[0]
        return verdict
    if len(live) == 1:
        verdict[live[0]] = (message.strip() or "ptxas crashed").splitlines()[0]
        return verdict
    for half in (live[: len(live) // 2], live[len(live) // 2 :]):
        for i, v in zip(half, judge(ptxas, target, [instructions[i] for i in half])):
            verdict[i] = v
    return verdict


def judge_all(ptxas, lines):
    out = {}
    by_target = {}
    for target, text in lines:
        by_target.setdefault(judged_on(target), []).append((target, text))
    for target, items in by_target.items():
        for i in range(0, len(items), 250):
            part = items[i : i + 250]
            for item, v in zip(part, judge(ptxas, target, [t for _, t in part])):
                out[item] = v
    return out


def main():
    a = argparse.ArgumentParser()
    a.add_argument("list")
    a.add_argument("--check", action="store_true")
    a.add_argument("--ptxas", default="/usr/local/cuda/bin/ptxas")
    a.add_argument("--why", action="store_true", help="add ptxas's message to refused lines")
    args = a.parse_args()
    rows = [l.rstrip("\n") for l in open(args.list) if l.strip() and not l.startswith("#")]
    if args.check:
        old = {tuple(r.split(" ", 2)[1:]): r.split(" ", 1)[0] for r in rows}
        new = judge_all(args.ptxas, list(old))
        wrong = [k for k in old if (old[k] in ("ok", "strict")) != (new[k] is None)]
        for k in wrong:
            print("recorded", old[k], "but ptxas says", new[k] or "ok", ":", *k)
        return bool(wrong)
    lines = [tuple(r.split(" ", 1)) for r in rows]
    for (target, text), v in judge_all(args.ptxas, lines).items():
        print("ok" if v is None else "no", target, text + (f"  // {v}" if v and args.why else ""))
    return 0


sys.exit(main())
