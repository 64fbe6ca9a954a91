#!/usr/bin/env bash
# Which K, and at which load? On one GPU: SmolLM2 with its EAGLE-3 head (K = 4, 2, 1) and an 8B shape with random weights and made-up
# acceptance (K = 5, 3, 1).
#
#   sweep.sh [smollm2] [8b]        gain against load for several K, the schedule that follows, and that schedule gated; both when neither is named
#   sweep.sh tune [smollm2] [8b]   what --specdec-tune recommends at one load, from two Ks, once it has measured that, too
#   SWEEP_LOADS="1 8 32 128"       concurrencies; SWEEP_REQUESTS (the least per load), SWEEP_ROUNDS and SWEEP_MAX_TOKENS likewise
#   SMOLLM2_K="1 2 4"              the Ks of SmolLM2, EIGHT_B_K="1 3 5" those of the 8B shape; tuning takes the last one of each
#   LIMIT_S=540                    seconds for all of it; servers start together where there is room, those with a schedule after them
. "$(dirname "$0")/environment.sh"
served='{"max_model_len": 2048, "kv_cache_memory_bytes": "8G"}'
configs=()
config() { # ID TARGET SPECULATIVE_CONFIG SERVE [MORE KEYS]
  printf '{"model": "%s", "speculative_config": %s, "serve": %s, "measure": {"allow": ["synthetic"]}%s}' "$2" "$3" "$4" "${5:-}" > "$work/$1.json"
  configs+=("$work/$1.json")
}
smollm2() { # K...
  : "${DRAFTS:?}"
  local k
  for k in "$@"; do
    config "smollm2-k$k" "$SMOLLM2" "{\"method\": \"eagle3\", \"model\": \"$DRAFTS/smollm2-135m-eagle3\", \"num_speculative_tokens\": $k}" \
      "${SWEEP_SERVE:-$served}" "${SWEEP_MORE:-}"
  done
}
shape_8b() { # K...
  python3 "$root/benchmarks/gpu/dummy_models.py" "$SMOLLM2" "$work/models" || exit 1
  local k rates='0.7, 0.5, 0.35, 0.24, 0.17'
  for k in "$@"; do
    config "8b-k$k" models/target-8b "{\"method\": \"eagle3\", \"model\": \"models/head-8b\", \"num_speculative_tokens\": $k,
      \"rejection_sample_method\": \"synthetic\", \"synthetic_acceptance_rates\": [$(cut -d, -f"1-$k" <<< "$rates")]}" \
      '{"max_model_len": 2048, "load_format": "dummy", "kv_cache_memory_bytes": "6G", "max_num_seqs": 128}'
  done
}
name=sweep test=test_gain_against_load option=--specdec-dynamic
small="${SMOLLM2_K:-1 2 4}" large="${EIGHT_B_K:-1 3 5}"
if [ "${1:-}" = tune ]; then
  shift
  name=tune test=test_one_load option=--specdec-tune small=${small##* } large=${large##* }
fi
for family in "${@:-both}"; do
  case $family in
    smollm2) smollm2 $small ;;
    8b) shape_8b $large ;;
    both) smollm2 $small; shape_8b $large ;;
    *) echo "no family $family: smollm2 or 8b" >&2; exit 2 ;;
  esac
done
gate "$name" "${configs[@]}" -- "$option" -k "$test" "$root/benchmarks/gpu/test_sweep.py"
for file in "$work"/*-dynamic.json "$work/$name"/*/k-advice*.json; do
  [ -e "$file" ] && cp "$file" "$RESULTS/$(basename "$(dirname "$file")")-$(basename "$file")" && cat "$file"
done
