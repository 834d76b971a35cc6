#!/usr/bin/env python3
"""Asks ptxas for its verdict on sample instructions.

samples.py LIST [--ptxas PATH] > samples.txt     LIST has lines "TARGET INSTRUCTION" (make_samples prints them)
samples.py --check samples.txt [--ptxas PATH]    the same verdicts again? exit 1 with the differences

A line of samples.txt is "ok TARGET INSTRUCTION" or "no TARGET INSTRUCTION"; each instruction is judged inside the
frame below, on the target named (sm_0 and targets below sm_90 stand for sm_90a).
"""
import argparse, os, re, subprocess, sys, tempfile

FRAME = """.version 9.0
.target {target}
.address_size 64
.global .align 128 .b8 gv[256];
.func (.param .b32 r) fn (.param .b32 a) {{ ret; }}
.entry k(.param .u64 kp) {{
.reg .pred p<10>; .reg .b16 h<256>; .reg .b32 r<256>; .reg .b64 d<256>; .reg .f32 f<256>; .reg .f64 e<256>;
.reg .b128 q<10>; .shared .align 128 .b8 sv[1024]; .local .align 16 .b8 lv[64]; .param .b32 cp; .param .b32 cq;
T: .branchtargets L;
L:
"""
FIRST = FRAME.count("\n") + 1


def frame(target):
    return FRAME.format(target=target)


def judged_on(target):
    m = re.match(r"sm_(\d+)", target)
    return "sm_90a" if int(m[1]) < 90 or target == "sm_90" else target if target[-1] == "a" else target + "a"


def judge(ptxas, target, instructions):
    """For each instruction: None when ptxas accepts it, else its message."""
    verdict = [None] * len(instructions)
    while True:
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "s.ptx")
            with open(path, "w") as f:
                f.write(frame(target))
                f.writelines((i if v is None else "//") + "\n" for i, v in zip(instructions, verdict))
                f.write("}\n")
            p = subprocess.run([ptxas, "-arch=" + target, "-O0", "-o", os.path.join(d, "o"), path], capture_output=True, text=True)
        found = False
        for line, text in re.findall(r"line (\d+); (?:error|fatal)\s*: (.*)", p.stderr):
            n = int(line) - FIRST
            if 0 <= n < len(verdict) and verdict[n] is None:
                verdict[n] = text
                found = True
        if p.returncode == 0:
            return verdict
        if not found:
            return bisect(ptxas, target, instructions, verdict, p.stderr)


def bisect(ptxas, target, instructions, verdict, message):
    """ptxas gave no line: find the culprits by halves."""
    live = [i for i, v in enumerate(verdict) if v is None]
    if not live:
        raise SystemExit("ptxas refuses the frame itself: " + message)
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
        wrong = [k for k in old if (old[k] == "ok") != (new[k] is None)]
        for k in wrong:
            print("recorded", old[k], "but ptxas says", new[k] or "ok", ":", *k)
        return bool(wrong)
    lines = [tuple(r.split(" ", 1)) for r in rows]
    for (target, text), v in judge_all(args.ptxas, lines).items():
        print("ok" if v is None else "no", target, text + (f"  // {v}" if v and args.why else ""))
    return 0


sys.exit(main())
