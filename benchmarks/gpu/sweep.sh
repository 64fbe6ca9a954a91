#!/usr/bin/env bash
# Gain against load for several K, the schedule that follows, and that schedule gated, on one GPU: SmolLM2 with its EAGLE-3 head
# (K = 4, 2, 1) and an 8B shape with random weights and made-up acceptance (K = 5, 3, 1). Each family is one call of pytest.
#
#   sweep.sh [smollm2] [8b]        both when neither is named
#   SWEEP_LOADS="1 8 32 128"       concurrencies; SWEEP_REQUESTS (the least per load), SWEEP_MAX_TOKENS and SWEEP_K (of SmolLM2) likewise
#   LIMIT_S=540                    seconds for one family; its servers start together, the one with the schedule after them
. "$(dirname "$0")/environment.sh"
served='{"max_model_len": 2048, "kv_cache_memory_bytes": "8G"}'
config() { # ID TARGET SPECULATIVE_CONFIG SERVE [MORE KEYS]
  printf '{"model": "%s", "speculative_config": %s, "serve": %s, "measure": {"allow": ["synthetic"]}%s}' "$2" "$3" "$4" "${5:-}" > "$work/$1.json"
}
sweep() { # NAME CONFIG...
  local name=$1; shift
  gate "sweep-$name" "${@/%/.json}" -- --specdec-dynamic "$root/benchmarks/gpu/test_sweep.py"
  for file in "$work"/*-dynamic.json; do
    [ -e "$file" ] && mv "$file" "$RESULTS/" && cat "$RESULTS/$(basename "$file")"
  done
}
smollm2() {
  : "${DRAFTS:?}"
  config smollm2 "$SMOLLM2" "{\"method\": \"eagle3\", \"model\": \"$DRAFTS/smollm2-135m-eagle3\", \"num_speculative_tokens\": ${SWEEP_K:-4}}" \
    "${SWEEP_SERVE:-$served}" "${SWEEP_MORE:-}"
  sweep smollm2 "$work/smollm2"
}
shape_8b() {
  python3 "$root/benchmarks/gpu/dummy_models.py" "$SMOLLM2" "$work/models" || return
  local k rates='0.7, 0.5, 0.35, 0.24, 0.17'
  for k in 1 3 5; do
    config "8b-k$k" models/target-8b "{\"method\": \"eagle3\", \"model\": \"models/head-8b\", \"num_speculative_tokens\": $k,
      \"rejection_sample_method\": \"synthetic\", \"synthetic_acceptance_rates\": [$(cut -d, -f"1-$k" <<< "$rates")]}" \
      '{"max_model_len": 2048, "load_format": "dummy", "kv_cache_memory_bytes": "6G", "max_num_seqs": 128}'
  done
  sweep 8b "$work/8b-k1" "$work/8b-k3" "$work/8b-k5"
}
for family in "${@:-both}"; do
  case $family in
    smollm2) smollm2 ;;
    8b) shape_8b ;;
    both) smollm2; shape_8b ;;
    *) echo "no family $family: smollm2 or 8b" >&2; exit 2 ;;
  esac
done
