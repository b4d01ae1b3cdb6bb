#!/bin/bash
# Final measurements on a GPU: which settings, the commands of the user cold and warm, cities, kernels. $OUT gets one archive.
W=/tmp/work2; mkdir -p $W
export PYTHONPATH=$PWD/src:$PWD/.carry/site:$PWD PYTHONUNBUFFERED=1 MPLCONFIGDIR=/tmp/mpl FACTORAX_COMPILATION_CACHE=off
PY=${PY:-python3}; began=$(date +%s); end=$(( began + ${TOTAL:-500} ))
left() { echo $(( end - $(date +%s) )); }
say() { echo "$(( $(date +%s) - began )) $*" | tee -a $W/log.txt; }
pack() { tar czf $W.tmp -C $W --exclude=checkpoints . 2>/dev/null; mv $W.tmp $OUT/results.tgz; }
( while true; do sleep 10; pack; done ) & packer=$!
parts() { XLA_PYTHON_CLIENT_PREALLOCATE=false $PY -m benchmarks.gpu_parts --lock /tmp/lock2 --out $W "$@" > $W/parts_$2.txt 2>&1; say parts "$2" $?; }
tune() { XLA_PYTHON_CLIENT_PREALLOCATE=false timeout -s KILL 190 $PY -m benchmarks.gpu_tuning --first-seed 100 --seeds 3 --out $W "$@" > $W/tune_$2.txt 2>&1; say tune "$2" $?; }
S='{"n_envs":512,"n_steps":32,"batch_size":2048,"n_epochs":4}'
CITY=traffic:100x100,initial=everywhere LARGE=traffic:316x316,initial=everywhere
S7='{"n_envs":8,"n_steps":400,"batch_size":320,"n_epochs":5}' S8='{"n_envs":1,"n_steps":400,"batch_size":20,"n_epochs":5}'
T='12e6,16e6'
if [ -n "$TINY" ]; then S='{"n_envs":4,"n_steps":8,"batch_size":16,"n_epochs":1}'; S7=$S; S8=$S; CITY=traffic:1x2; LARGE=$CITY; T='64,128'; fi
tune --name 3x3 --settings "$S" --limit 165 --grid "{\"learning_rate\":[8e-3,16e-3],\"ent_coef\":[0.02,0.05],\"total_timesteps\":[$T]}" & a=$!
tune --name 2x6 --problem traffic:2x6,slots=20 --settings "$S" --limit 165 --grid "{\"learning_rate\":[8e-3,16e-3],\"ent_coef\":[0.03],\"total_timesteps\":[16e6]}" & b=$!
tune --name bfloat16 --bfloat16 --settings "$S" --limit 165 --grid "{\"learning_rate\":[8e-3],\"ent_coef\":[0.02,0.05],\"total_timesteps\":[12e6]}" & c=$!
wait $a $b $c
choose() { $PY - $W/tune_$1.json $2 <<'P'
import json, sys
try:
    d = json.load(open(sys.argv[1]))
    rows = [(sum(f[1]) / len(f[1]), h) for h, f in zip(d["grid"], d["final"]) if f and f[0] >= 0.97 * h["total_timesteps"]]
    short = [r for r in rows if r[0] >= float(sys.argv[2]) and r[1]["total_timesteps"] < 15e6]
    mean, h = max(short or rows, key=lambda r: r[0])
except Exception as error:
    h = {"learning_rate": 8e-3, "ent_coef": 0.03, "total_timesteps": 16e6}
print("--learning-rate", h["learning_rate"], "--ent-coef", h["ent_coef"], "--total-timesteps", int(h["total_timesteps"]))
P
}
O3=$(choose 3x3 -111); O6=$(choose 2x6 -113)
say chosen 3x3 $O3 2x6 $O6
cli() { local name=$1 cache=$2 problem=$3; shift 3
  local t=$(date +%s.%N)
  JAX_LOG_COMPILES=1 JAX_COMPILATION_CACHE_DIR=/tmp/$cache JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0.2 \
    $PY -m factorax.cli train $problem --preset traffic-gpu --seeds 5 --out $W/$name "$@" > $W/cli_$name.txt 2>&1
  say cli $name $? seconds $(echo "$(date +%s.%N) - $t" | bc 2>/dev/null || $PY -c "import time; print(time.time() - $t)") options $*; }
N=5; [ -n "$TINY" ] && { O3="--total-timesteps 65536"; O6=$O3; }
cli cold-3x3 c3 traffic:3x3,slots=20 $O3
cli warm-3x3 c3 traffic:3x3,slots=20 $O3
cli short-3x3 c3 traffic:3x3,slots=20 $O3 --total-timesteps ${SHORT:-2400000}
cli cold-2x6 c6 traffic:2x6,slots=20 $O6
JAX_PLATFORMS=cpu $PY -m benchmarks.gpu_export $W/policies $W/cold-3x3/seed-* $W/cold-2x6/seed-* $W/short-3x3/seed-* > $W/export.txt 2>&1 & x=$!
[ $(left) -gt 150 ] && cli warm-2x6 c6 traffic:2x6,slots=20 $O6
parts --name preset --settings "$S" --trace --hlo --parts & a=$!
parts --name city --problem $CITY --settings "$S7" --seeds 1 --trace --hlo & b=$!
[ $(left) -gt 110 ] && { parts --name city_bfloat16 --problem $CITY --settings "$S7" --seeds 1 --bfloat16 --trace & c=$!; }
[ $(left) -gt 110 ] && { parts --name preset_bfloat16 --settings "$S" --bfloat16 & f=$!; }
parts --name city_large --problem $LARGE --settings "$S8" --seeds 1 --trace & d=$!
XLA_FLAGS="--xla_gpu_force_compilation_parallelism=8" parts --name parallel --settings "$S" & e=$!
while kill -0 $a 2>/dev/null || kill -0 $b 2>/dev/null || kill -0 $d 2>/dev/null || kill -0 ${c:-$d} 2>/dev/null || kill -0 $e 2>/dev/null; do
  [ $(left) -lt 8 ] && break; sleep 1; done
say over
kill $packer; pack
cat $W/log.txt
