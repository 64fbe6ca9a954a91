#!/usr/bin/env bash
# Is anything left when pytest is killed while it measures? Seconds until the last server process and the device's memory are gone.
. "$(dirname "$0")/environment.sh"
printf '{"model": "%s", "speculative_config": {"method": "ngram", "num_speculative_tokens": 3},
 "serve": {"max_model_len": 2048, "enforce_eager": true, "kv_cache_memory_bytes": 17179869184}}' "$SMOLLM2" > "$work/kill.json"
cat > "$work/test_kill.py" <<'SUITE'
import pytest

@pytest.mark.spec_load(workload="chat", num_requests=5000, max_tokens=128)
@pytest.mark.spec_slo(tpot_gain=-1.0)
def test_long(spec_comparison):
    pass
SUITE
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | awk "{ sum += \$1 } END { print sum }"; }
servers() { for pid in $(left); do { tr "\0" " " < "/proc/$pid/cmdline"; } 2>/dev/null | grep -qE 'python|VLLM' && echo "$pid"; done; }
now() { date +%s%3N; } # ms
{
  echo "before: $(used) MiB in use"
  cd "$work" || exit 1
  python3 -m pytest -p pytest_specdec.plugin -c "$work/pytest.ini" --rootdir="$work" --specdec-dir="$work/out" --specdec-config="$work/kill.json" "$work/test_kill.py" \
    > "$work/console.txt" 2>&1 &
  pytest=$!
  for _ in $(seq 300); do grep -q "round 1" "$work/console.txt" && break; kill -0 "$pytest" 2>/dev/null || break; sleep 1; done
  grep -q "round 1" "$work/console.txt" || { tail -n 40 "$work/console.txt"; exit 1; }
  sleep 3
  echo "measuring: $(used) MiB in use, $(servers | wc -l) processes"
  began=$(now)
  kill -9 "$pytest"
  while [ -n "$(servers)" ] && [ $(($(now) - began)) -lt 60000 ]; do sleep 0.1; done
  echo "processes gone after $(($(now) - began)) ms"
  while [ "$(used)" -gt 600 ] && [ $(($(now) - began)) -lt 60000 ]; do sleep 0.1; done
  echo "memory back after $(($(now) - began)) ms: $(used) MiB in use"
} 2>&1 | tee "$RESULTS/kill.txt"
