#!/bin/sh
# Runs one file of this folder with pytest; exits 77 (skipped) where no python is set up for it.
#   run_pytest.sh FILE ARGS..    env: PACELINE_PYTHON (an interpreter with tests/requirements.txt installed),
#                                PACELINE_BIN_DIR (the programs under test), PACELINE_SHARED, PACELINE_TEST_MODEL
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${PACELINE_PYTHON:-}" ]; then
  echo "skipped: PACELINE_PYTHON is not set (a python with the packages of tests/requirements.txt)"
  exit 77
fi
file=$1
shift
export PYTHONDONTWRITEBYTECODE=1
cd "$here"
exec "$PACELINE_PYTHON" -m pytest -q -ra -p no:cacheprovider --durations=5 "$file" "$@"
