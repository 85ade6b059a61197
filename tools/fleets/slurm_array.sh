#!/bin/bash
#SBATCH --job-name=predict
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --requeue
# Predicts a shard in each task of a Slurm array, without MPI:
#
#   job=$(sbatch --parsable --array=1-8 tools/fleets/slurm_array.sh run pages.jsonl found.jsonl 8)
#   sbatch --dependency=afterany:$job --wrap "plimsoll merge-parts --output found.jsonl"
#
# A task that was killed is run again with its number alone (--array=3); those that are finished do nothing. Without
# Slurm: SLURM_ARRAY_TASK_ID=1 tools/fleets/slurm_array.sh run pages.jsonl found.jsonl 2
set -euo pipefail

if [[ $# -lt 4 || -z ${SLURM_ARRAY_TASK_ID:-} ]]; then
  echo "usage: sbatch --array=1-SHARDS $0 MODEL DATA OUTPUT SHARDS [OPTION of plimsoll predict]..." >&2
  exit 2
fi
model=$1 data=$2 output=$3 shards=$4
shift 4
exec "${PLIMSOLL:-plimsoll}" predict --model "$model" --data "$data" --output "$output" \
  --shard "$SLURM_ARRAY_TASK_ID/$shards" --threads "${SLURM_CPUS_PER_TASK:-0}" --launcher none "$@"
