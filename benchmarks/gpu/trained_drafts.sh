#!/usr/bin/env bash
# A trained EAGLE-3 head, a trained draft model, ngram and suffix decoding for SmolLM2-135M-Instruct against plain decoding, on one GPU.
#
#   trained_drafts.sh [eagle3] [draft] [ngram] [suffix] [streams] [streams-8b]
#                    default: the first four; suffix needs arctic-inference
#   REQUESTS=64      requests a round; more of them make the intervals narrower
#   API_SERVERS=4    API server processes of streams and streams-8b
#
# streams is the EAGLE-3 head, streams-8b an 8B shape with a head, for 256 streams, which are more than one API server can write.
. "$(dirname "$0")/environment.sh"
: "${DRAFTS:?}"
declare -A spec=(
  [eagle3]="{\"method\": \"eagle3\", \"model\": \"$DRAFTS/smollm2-135m-eagle3\", \"num_speculative_tokens\": 3}"
  [draft]="{\"method\": \"draft_model\", \"model\": \"$DRAFTS/smollm2-135m-draft\", \"num_speculative_tokens\": 3}"
  [ngram]='{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2}'
  [suffix]='{"method": "suffix"}'
)
spec[streams]=${spec[eagle3]}
configs=()
for id in ${@:-eagle3 draft ngram suffix}; do
  if [ "$id" = streams-8b ]; then
    python3 "$root/benchmarks/gpu/dummy_models.py" "$SMOLLM2" "$work/models" || exit 1
    printf '{"model": "models/target-8b", "speculative_config": {"method": "eagle3", "model": "models/head-8b", "num_speculative_tokens": 3, "rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.5},
 "serve": {"max_model_len": 2048, "load_format": "dummy", "kv_cache_memory_bytes": "20G", "max_num_seqs": 256, "api_server_count": %s}, "measure": {"allow": ["synthetic"]}}' "${API_SERVERS:-4}" > "$work/$id.json"
    configs+=("$work/$id.json")
    continue
  fi
  [ -n "${spec[$id]:-}" ] || { echo "no draft $id: ${!spec[*]}" >&2; exit 2; }
  # Suffix decoding wants fresh prompts: 20 for each of four rounds is all that the bundled workloads have.
  requests=${REQUESTS:-64} more=
  [ "$id" = suffix ] && requests=20
  [ "$id" = streams ] && more=", \"api_server_count\": ${API_SERVERS:-4}"
  printf '{"model": "%s", "speculative_config": %s, "serve": {"max_model_len": 2048, "kv_cache_memory_bytes": "8G"%s},
 "measure": {"rounds": 4, "max_rounds": 4}, "load": {"main": {"concurrency": 8, "num_requests": %s}}}' "$SMOLLM2" "${spec[$id]}" "$more" "$requests" > "$work/$id.json"
  configs+=("$work/$id.json")
done
gate trained "${configs[@]}" -- "$root/benchmarks/gpu/test_trained_drafts.py"
