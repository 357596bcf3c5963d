#!/bin/sh
# A job of a pipeline: rewrite a model for a target, prove it, build it, compare it, and keep the reports.
#
#   sh pipeline.sh MODEL.onnx TARGET FOLDER [options of `surgeon build`, such as --profile x:1x3x64x64]
#
# FOLDER gets everything that a person would want to see afterwards, also where a step fails. The exit status is 0 where
# every step held, else the largest of its steps: docs/exit-status.md says what each means.
set -u
SURGEON=${SURGEON:-surgeon}
model=$1 target=$2 out=$3
shift 3
mkdir -p "$out" || exit 2
worst=0

step() { # step NAME COMMAND...: its output goes to FOLDER/NAME.txt, its exit status counts
    name=$1
    shift
    "$@" >"$out/$name.txt" 2>&1
    status=$?
    [ "$status" -gt "$worst" ] && worst=$status
    printf '%-14s exit %s  %s\n' "$name" "$status" "$(tail -n 1 "$out/$name.txt")"
    return "$status"
}

# Does the model need surgeon? 4 says that something would change: no failure here, and what a gate on an already rewritten
# model would stop at.
$SURGEON rewrite "$model" --check --target "$target" >"$out/check.txt" 2>&1
status=$?
printf '%-14s exit %s  %s\n' check "$status" "$(tail -n 1 "$out/check.txt")"
case $status in 2 | 130) exit "$status" ;; esac

step rewrite $SURGEON rewrite "$model" "$out/model.onnx" --target "$target" --diff --report "$out/report.json" --report "$out/report.html"
[ -f "$out/model.onnx" ] || exit "$worst"
step again $SURGEON rewrite "$out/model.onnx" --check --target "$target"
step compare $SURGEON compare "$model" "$out/model.onnx" --network
step build $SURGEON build "$out/model.onnx" "$out/model.engine" --with rtx "$@"

# TensorRT-RTX and TensorRT 11 take the precision from the file: a second model, in fp16 with fp32 islands.
step fp16 $SURGEON rewrite "$out/model.onnx" "$out/model_fp16.onnx" --target "$target" --fp16 --report "$out/fp16.json" --report "$out/fp16.html" &&
    step build_fp16 $SURGEON build "$out/model_fp16.onnx" "$out/model_fp16.engine" --with rtx "$@"
exit "$worst"
