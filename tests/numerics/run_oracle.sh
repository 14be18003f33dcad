#!/bin/sh
# Runs a python script that compares with an outside reference; exits 77 (skipped) where python is not set up.
#   run_oracle.sh SCRIPT ARGS..     env: PACELINE_PYTHON (an interpreter with the reference packages), PACELINE_SHARED,
#                                   PACELINE_ORACLE_COUNT (strings for each tokenizer: 2000; the full run 100000)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${PACELINE_PYTHON:-}" ]; then
  echo "skipped: PACELINE_PYTHON is not set (a python with tokenizers, sentencepiece and gguf)"
  exit 77
fi
script=$1
shift
exec "$PACELINE_PYTHON" "$here/$script" --shared "${PACELINE_SHARED:-$here/../../../shared}" \
  --real-model "${PACELINE_TEST_MODEL:-$here/../../models/SmolLM2-135M-Instruct.Q4_1.gguf}" \
  --count "${PACELINE_ORACLE_COUNT:-2000}" "$@"
