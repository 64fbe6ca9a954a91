# Sourced by the scripts beside it on a GPU host: what they expect, and the guarantee that nothing outlives them.
#
#   SMOLLM2   folder of SmolLM2-135M-Instruct in Hugging Face form
#   DRAFTS    folder with smollm2-135m-eagle3 and smollm2-135m-draft
#   RESULTS   where results.json, logs and the console output go (default ./gpu-results)
#   ONLY      which tests of a suite, as pytest's -k takes it (default: all)
#
# vLLM and the plugin's dependencies must be importable by python3.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${SMOLLM2:?}" "${RESULTS:=$PWD/gpu-results}"
mkdir -p "$RESULTS"
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 PYTHONUNBUFFERED=1
# The plugin is named on the command line: it need not be installed, and may be.
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
work=$(mktemp -d)
echo "[pytest]" > "$work/pytest.ini"
# The plugin ends its servers; should anything be left, it is told from other people's by a variable of its own.
export SPECDEC_BENCHMARK=$work
left() { grep -lszxF "SPECDEC_BENCHMARK=$work" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3 | grep -vx "$$"; }
end() {
  rm -rf "$work"
  for pid in $(left); do kill -9 "$pid" 2>/dev/null && echo "ended what was left: $pid"; done
  command -v nvidia-smi > /dev/null && nvidia-smi --query-gpu=memory.used --format=csv,noheader
}
trap end EXIT

# gate NAME CONFIG... -- PYTEST ARGUMENTS: one pytest run that ends by itself, its console output kept.
gate() {
  local name=$1 configs=(); shift
  while [ "$1" != -- ]; do configs+=("--specdec-config=$1"); shift; done; shift
  echo "== $name: started $(date +%T)"
  (cd "$work" && time timeout --signal=INT --kill-after=20 "${LIMIT_S:-540}" \
    python3 -m pytest -p pytest_specdec.plugin -p no:cacheprovider -c "$work/pytest.ini" --rootdir="$work" -v \
    --specdec-dir="$work/$name" "${configs[@]}" "$@" ${ONLY:+-k "$ONLY"}) 2>&1 | tee "$RESULTS/$name.txt"
  cp "$work/$name/results.json" "$RESULTS/$name.json" 2>/dev/null
  # Whole logs: what a start spends its time on stands at their beginning.
  (cd "$work/$name" 2>/dev/null && tar -czf "$RESULTS/$name.logs.tgz" ./*/*.log)
  gzip -f "$RESULTS/$name.json" 2>/dev/null || true
}
