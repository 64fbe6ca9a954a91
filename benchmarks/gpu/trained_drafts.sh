#!/usr/bin/env bash
# ngram, a trained EAGLE-3 head and a trained draft model for SmolLM2-135M-Instruct against plain decoding, on one GPU.
. "$(dirname "$0")/environment.sh"
: "${DRAFTS:?}"
config() { printf '{"model": "%s", "speculative_config": %s, "serve": {"max_model_len": 2048}, "measure": {"rounds": 4, "max_rounds": 8}}' "$SMOLLM2" "$2" > "$work/$1.json"; }
config ngram '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2}'
config eagle3 "{\"method\": \"eagle3\", \"model\": \"$DRAFTS/smollm2-135m-eagle3\", \"num_speculative_tokens\": 3}"
config draft "{\"method\": \"draft_model\", \"model\": \"$DRAFTS/smollm2-135m-draft\", \"num_speculative_tokens\": 3}"
gate trained "$work/eagle3.json" "$work/draft.json" "$work/ngram.json" -- "$root/benchmarks/gpu/test_trained_drafts.py"
