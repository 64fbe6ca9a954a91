#!/usr/bin/env bash
# A trained EAGLE-3 head, a trained draft model, ngram and suffix decoding for SmolLM2-135M-Instruct against plain decoding, on one GPU.
#
#   trained_drafts.sh [eagle3] [draft] [ngram] [suffix]
#                    default: all four; suffix needs arctic-inference
#   REQUESTS=64      requests a round; more of them make the intervals narrower
. "$(dirname "$0")/environment.sh"
: "${DRAFTS:?}"
declare -A spec=(
  [eagle3]="{\"method\": \"eagle3\", \"model\": \"$DRAFTS/smollm2-135m-eagle3\", \"num_speculative_tokens\": 3}"
  [draft]="{\"method\": \"draft_model\", \"model\": \"$DRAFTS/smollm2-135m-draft\", \"num_speculative_tokens\": 3}"
  [ngram]='{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2}'
  [suffix]='{"method": "suffix"}'
)
configs=()
for id in ${@:-eagle3 draft ngram suffix}; do
  [ -n "${spec[$id]:-}" ] || { echo "no draft $id: ${!spec[*]}" >&2; exit 2; }
  # Suffix decoding wants fresh prompts: 20 for each of four rounds is all that the bundled workloads have.
  requests=${REQUESTS:-64}
  [ "$id" = suffix ] && requests=20
  printf '{"model": "%s", "speculative_config": %s, "serve": {"max_model_len": 2048, "kv_cache_memory_bytes": "8G"},
 "measure": {"rounds": 4, "max_rounds": 4}, "load": {"main": {"concurrency": 8, "num_requests": %s}}}' "$SMOLLM2" "${spec[$id]}" "$requests" > "$work/$id.json"
  configs+=("$work/$id.json")
done
gate trained "${configs[@]}" -- "$root/benchmarks/gpu/test_trained_drafts.py"
