#!/usr/bin/env bash
# What is said when a GPU's memory does not suffice: another process has it, or the draft takes what was left. Both gates must be errors.
#
#   memory.sh [taken] [large-draft]      default: both
. "$(dirname "$0")/environment.sh"
python3 "$root/benchmarks/gpu/dummy_models.py" "$SMOLLM2" "$work/models" || exit 1
cat > "$work/test_memory.py" <<'SUITE'
import pytest

@pytest.mark.spec_load(workload="chat", num_requests=8, max_tokens=16)
@pytest.mark.spec_slo(tpot_gain=-1.0)
def test_gate(spec_comparison):
    pass
SUITE
printf '{"model": "%s", "speculative_config": {"method": "ngram", "num_speculative_tokens": 3}, "placement": "together",
 "serve": {"max_model_len": 2048, "enforce_eager": true}}' "$SMOLLM2" > "$work/taken.json"
# A draft as large as the target, and a cache that leaves room for one of them only.
printf '{"model": "models/target-8b", "placement": "sequential", "speculative_config": {"method": "draft_model", "model": "models/target-8b",
 "num_speculative_tokens": 3, "rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.0},
 "serve": {"max_model_len": 2048, "load_format": "dummy", "enforce_eager": true, "kv_cache_memory_bytes": "116G"}, "measure": {"allow": ["synthetic"]}}' > "$work/large-draft.json"
taken() {
  coproc HOLDER { python3 -c "
import torch
held = torch.empty(100 * 2**30, dtype=torch.uint8, device='cuda')
print('held', flush=True)
input()"; }
  read -r _ <&"${HOLDER[0]}"
  gate taken "$work/taken.json" -- "$work/test_memory.py"
  echo >&"${HOLDER[1]}"
  wait "$HOLDER_PID"
}
for which in ${@:-taken large-draft}; do
  case $which in
    taken) taken ;;
    large-draft) gate large-draft "$work/large-draft.json" -- "$work/test_memory.py" ;;
    *) echo "no case $which: taken or large-draft" >&2; exit 2 ;;
  esac
done
