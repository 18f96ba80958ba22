#!/usr/bin/env python3
"""Reads what the Vulkan plugin has written about its kernels (plugins/vulkan/statistics.c) for tools/gpu/chips.

usage: kernels.py CHIP FOLDER            prints a row for each kernel
       kernels.py --opencl CHIP FOLDER   likewise, of the OpenCL plugin's: a folder for each program, in it the dumps of Intel's
                                         compiler
       kernels.py --record ROWS          those of them that chips.tsv keeps
       kernels.py --compare RECORD ROWS  what has become worse; status 1 if anything has

A row has, separated by tabs: chip, kernel (shader and specialisation constants), registers, spills, occupancy, shared memory
(bytes), instructions, those of the hottest loop, dot products and matrix products in the whole kernel. "-": the driver
doesn't tell, or its assembly isn't understood here. Of OpenCL's kernels spills are bytes, those of arrays in private memory
too, and occupancy is the work-items of a thread.
"""

import pathlib
import re
import sys

# The drivers' names: RADV, NVK, Turnip, Honeykrisp.
REGISTERS = ("VGPRs", "Number of GPRs", "Registers used", "GPRs")
SPILLS = ("Spilled VGPRs", "Spilled SGPRs", "Spills to memory", "Fills from memory", "STP Count", "LDP Count", "Spills", "Fills")
OCCUPANCY = ("Subgroups per SIMD", "Max warps/SM", "Max Waves Per Core", "Threads")
SHARED = ("LDS size", "Shared memory", "SMEM size")
INSTRUCTIONS = ("Instructions", "Instruction count", "Instruction Count")
WATCHED = re.compile(r"opencl_|matmul_(f16|q8_0|q4_0|q4_k|q6_k|iq4_xs|mxfp4)_|attention_(f16_f16|q8_0_q8_0|join)|norm|route|group|scan")
DOT = re.compile(r"\b(v_dot4\w*|idp4\S*|v_dot2\w*|dp4acc|dp4a\S*)")
MATRIX = re.compile(r"\b(v_wmma\w*|v_mfma\w*|hmma\S*|imma\S*|simd_matrix\w*)")


def read(path):
    """A kernel's statistics by name, and its codes by name."""
    statistics, codes, lines = {}, {}, None
    for line in path.read_text(errors="replace").splitlines():
        word, _, rest = line.partition(" ")
        if word == "shader":
            statistics["shader"] = rest
        elif word == "statistic":
            value, _, name = rest.partition(" ")
            statistics[name] = float(value)
        elif word == "code":
            lines = codes.setdefault(rest, [])
        elif lines is not None:
            lines.append(line)
    return statistics, codes


def nak_blocks(lines):
    """NVK's assembly: [instructions], [successors] by block."""
    blocks, block = {}, None
    for line in lines:
        begin = re.match(r"\s*block(?:\.u)? (\d+) ", line)
        end = re.match(r"\} -> \[([^\]]*)\]", line)
        if begin:
            block = int(begin[1])
            blocks[block] = ([], [])
        elif end and block is not None:
            blocks[block][1].extend(int(x) for x in end[1].split(",") if x.strip())
        elif block is not None and line.strip():
            text = re.sub(r"^@!?u?p\d+\s+", "", line.split("//")[0].strip())
            words = text.split("=", 1)[-1].split()
            if words:
                blocks[block][0].append(words[0])
    return blocks


def aco_blocks(lines):
    """RADV's assembly likewise."""
    blocks, names, jumps, name, ended = [([], [])], {"": 0}, [], "", False
    for line in lines:
        label = re.match(r"\s*(BB\d+):", line)
        if label:
            if not ended:
                jumps.append((names[name], label[1]))
            name, ended = label[1], False
            names[name] = len(blocks)
            blocks.append(([], []))
            continue
        words = line.split(";")[0].split()
        if not words or not re.match(r"[a-z]+_", words[0]):
            continue
        blocks[names[name]][0].append(words[0])
        target = re.search(r"BB\d+", line.split(";")[0])
        if words[0].startswith(("s_cbranch", "s_branch")) and target:
            jumps.append((names[name], target[0]))
        ended = words[0] in ("s_branch", "s_endpgm")
    for source, target in jumps:
        if target in names:
            blocks[source][1].append(names[target])
    return dict(enumerate(blocks))


def hottest_loop(blocks):
    """The instructions of the longest innermost loop: from the target of a jump back to the jump, without an inner one."""
    loops = {(target, block) for block, (_, targets) in blocks.items() for target in targets if target <= block}
    inner = [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    return max((sum(len(blocks[b][0]) for b in blocks if low <= b <= high) for low, high in inner), default=None)


def count(codes):
    """Instructions of the hottest loop, dot products, matrix products."""
    for name, lines in codes.items():
        if "Assembly" in name or "assembly" in name or name.startswith(("NAK", "AGX", "IR3", "ir3")):
            text = "\n".join(lines)
            blocks = nak_blocks(lines) if re.search(r"^\s*block(\.u)? \d+ ", text, re.M) else aco_blocks(lines)
            return hottest_loop(blocks), len(DOT.findall(text)), len(MATRIX.findall(text))
    return None, None, None


def show(value):
    return "-" if value is None else f"{value:g}"


def rows(chip, folder):
    for path in sorted(pathlib.Path(folder).glob("*.txt")):
        statistics, codes = read(path)

        def first(names):
            return next((statistics[name] for name in names if name in statistics), None)

        measures = [first(REGISTERS), sum(statistics.get(name, 0) for name in SPILLS), first(OCCUPANCY), first(SHARED)]
        measures += [first(INSTRUCTIONS), *count(codes)]
        yield "\t".join([chip, path.stem, *map(show, measures)])


def intel_rows(folder):
    """What ze_info says of each kernel, and its assembly of the width that was chosen."""
    for info in sorted(folder.glob("*.zeinfo")):
        for text in re.split(r"^  - name: +", info.read_text(), flags=re.M)[1:]:
            name = text.split()[0]
            sizes = dict(re.findall(r"^      (\w+): +(\d+)$", text, re.M))
            width = sizes.get("simd_size", "-")
            codes = [path.read_text(errors="replace") for path in sorted(folder.glob(f"*_simd{width}_*.asm"))]
            code = next((code for code in codes if re.search(rf"^//\.kernel {re.escape(name)}$", code, re.M)), "")
            count = re.search(r"^//\.instCount (\d+)", code, re.M)
            if not count or name.startswith("Intel_"):
                continue
            spills = int(sizes.get("private_size", 0)) + int(sizes.get("spill_size", 0))
            row = [sizes.get("grf_count", "-"), spills, width, sizes.get("slm_size", 0), count[1], "-"]
            row += [len(re.findall(r"^.*\bdp4a\b", code, re.M)), len(re.findall(r"^.*\bdpas", code, re.M))]
            yield name, row


def opencl_rows(chip, folder):
    for program in sorted(path for path in pathlib.Path(folder).iterdir() if path.is_dir()):
        for name, row in intel_rows(program):
            yield "\t".join([chip, f"opencl_{program.name}:{name}", *map(str, row)])


def table(path):
    lines = (line.split("\t") for line in pathlib.Path(path).read_text().splitlines() if not line.startswith("#"))
    return {(fields[0], fields[1]): fields[2:] for fields in lines}


def record(path):
    """The kernels that decide how fast models are, of some types of weights, and all that spill."""
    for (chip, kernel), fields in sorted(table(path).items()):
        if WATCHED.match(kernel) or float(fields[1]) > 0:
            print("\t".join([chip, kernel, *fields]))


def compare(record, now):
    """Prints what is worse than recorded."""
    before, after = table(record), table(now)
    worse = []
    for key, fields in sorted(after.items()):
        old = before.get(key, ["-", "0", "-", "-", "-"])
        if float(fields[1]) > float(old[1]):
            worse.append(f"{key[0]}: {key[1]} spills {fields[1]} registers, recorded are {old[1]}")
        if "-" not in (fields[4], old[4]) and float(fields[4]) > 1.1 * float(old[4]):
            worse.append(f"{key[0]}: {key[1]} has {fields[4]} instructions, recorded are {old[4]}")
    chips = {chip for chip, _ in after}
    worse += [f"{key[0]}: {key[1]} was not compiled" for key in sorted(before) if key[0] in chips and key not in after]
    print("\n".join(worse), end="\n" if worse else "")
    return not worse


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--compare", old, new]:
            sys.exit(0 if compare(old, new) else 1)
        case ["--record", new]:
            record(new)
        case ["--opencl", chip, folder]:
            for line in opencl_rows(chip, folder):
                print(line)
        case [chip, folder]:
            for line in rows(chip, folder):
                print(line)
        case _:
            sys.exit(__doc__)
