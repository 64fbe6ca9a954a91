#!/usr/bin/env bash
# 256 streams at once, which are more than one API server process can write.
#
#   streams.sh [smollm2 | 8b]     SmolLM2 with its EAGLE-3 head (default), or an 8B shape with a head at 2.5
#   API_SERVERS=4                 API server processes
. "$(dirname "$0")/environment.sh"
case ${1:-smollm2} in
  smollm2)
    : "${DRAFTS:?}"
    model=$SMOLLM2 draft="\"model\": \"$DRAFTS/smollm2-135m-eagle3\"" serve='"kv_cache_memory_bytes": "8G"' measure=
    ;;
  8b)
    python3 "$root/benchmarks/gpu/dummy_models.py" "$SMOLLM2" "$work/models" || exit 1
    model=models/target-8b draft='"model": "models/head-8b", "rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.5'
    serve='"kv_cache_memory_bytes": "20G", "load_format": "dummy"' measure=', "measure": {"allow": ["synthetic"]}'
    ;;
  *) echo "streams.sh: smollm2 or 8b, not $1" >&2; exit 2 ;;
esac
cat > "$work/streams.json" << END
{"model": "$model", "speculative_config": {"method": "eagle3", "num_speculative_tokens": 3, $draft},
 "serve": {"max_model_len": 2048, "max_num_seqs": 256, "api_server_count": ${API_SERVERS:-4}, $serve}$measure}
END
gate streams "$work/streams.json" -- "$root/benchmarks/gpu/test_streams.py"
