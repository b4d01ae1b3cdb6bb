#!/bin/bash
# First measurements on a GPU: flags, kernels, parts, the command of the user, then tuning. $OUT gets one archive.
W=/tmp/work1; mkdir -p $W $W/cli
export PYTHONPATH=$PWD/src:$PWD/.carry/site:$PWD PYTHONUNBUFFERED=1 XLA_PYTHON_CLIENT_PREALLOCATE=false
export MPLCONFIGDIR=/tmp/mpl
PY=${PY:-python3}
SCALE=${SCALE:-1}
began=$(date +%s)
say() { echo "$(( $(date +%s) - began )) $*" | tee -a $W/log.txt; }
pack() { tar czf $W.tmp -C $W --exclude=checkpoints . 2>/dev/null; mv $W.tmp $OUT/results.tgz; }
( while true; do sleep 10; pack; done ) & packer=$!
nvidia-smi > $W/smi.txt 2>&1
which nvidia-cuda-mps-control >> $W/smi.txt 2>&1

parts() { $PY -m benchmarks.gpu_parts --lock /tmp/lock1 --out $W "$@" > $W/parts_$2.txt 2>&1; say parts "$2" $?; }
tune() { $PY -m benchmarks.gpu_tuning --out $W "$@" > $W/tune_$2.txt 2>&1; say tune "$2" $?; }
cli() { local name=$1; shift
  ( time JAX_LOG_COMPILES=1 $PY -X importtime -m factorax.cli train traffic:3x3,slots=20 --preset traffic-full --n-envs 64 --n-steps 100 \
    --total-timesteps $CLI --seeds 5 --out $W/cli/$name "$@" ) > $W/cli_$name.txt 2>&1; say cli $name $?; }
GRAPH="--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL"
QUICK="--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
if [ $SCALE = 1 ]; then
  S1='{"n_envs":64,"n_steps":100,"batch_size":320,"n_epochs":5}'
  S4='{"n_envs":512,"n_steps":32,"batch_size":2048,"n_epochs":4}'
  S6='{"n_envs":2048,"n_steps":16,"batch_size":8192,"n_epochs":3}'
  S7='{"n_envs":8,"n_steps":400,"batch_size":320,"n_epochs":5}'
  S8='{"n_envs":1,"n_steps":100,"batch_size":20,"n_epochs":5}'
  CLI=320000 CITY=traffic:100x100,initial=everywhere LARGE=traffic:316x316,initial=everywhere
else
  S1='{"n_envs":4,"n_steps":10,"batch_size":20,"n_epochs":2}'; S4=$S1; S6=$S1; S7=$S1; S8=$S1; CLI=12800 CITY=traffic:2x2,initial=everywhere LARGE=$CITY
fi
if [ -z "$SKIP1" ]; then
parts --name base --settings "$S1" --trace --hlo --parts & a=$!
XLA_FLAGS="$GRAPH" parts --name graph --settings "$S1" --trace & b=$!
XLA_FLAGS="$QUICK" parts --name quick --settings "$S1" & c=$!
parts --name plain --settings "$S1" --plain --trace & d=$!
( export JAX_COMPILATION_CACHE_DIR=/tmp/cache1 JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1
  cli cold; cli warm ) & e=$!
wait $b $c $d
XLA_FLAGS="$GRAPH --xla_gpu_graph_min_graph_size=1 --xla_gpu_command_buffer_unroll_loops=true" parts --name unroll --settings "$S1" & b=$!
XLA_FLAGS="$GRAPH $QUICK" parts --name graph_quick --settings "$S1" & c=$!
parts --name city --problem $CITY --settings "$S7" --seeds 1 --trace & f=$!
parts --name city_stored --problem $CITY --settings "$S7" --seeds 1 --stored & g=$!
parts --name city_large --problem $LARGE --settings "$S8" --seeds 1 --trace & h=$!
wait $a
parts --name wide --settings "$S4" --trace --parts & a=$!
wait $b $c
parts --name throughput --settings "$S6" --trace & b=$!
JAX_DEFAULT_MATMUL_PRECISION=tensorfloat32 parts --name tf32 --settings "$S4" & c=$!
wait $a $b $c $e $f $g
say phase 1 over
fi
[ -n "$SKIP2" ] && { kill $packer; pack; exit 0; }

export CUDA_MPS_PIPE_DIRECTORY=/tmp/mps CUDA_MPS_LOG_DIRECTORY=/tmp/mps_log
mkdir -p /tmp/mps /tmp/mps_log; nvidia-cuda-mps-control -d >> $W/smi.txt 2>&1 || unset CUDA_MPS_PIPE_DIRECTORY
[ -n "$(command -v nvidia-cuda-mps-control)" ] || unset CUDA_MPS_PIPE_DIRECTORY
export XLA_FLAGS="$QUICK"
end=$(( began + ${TOTAL:-470} ))
left() { echo $(( end - $(date +%s) )); }
t() { [ $(left) -gt 40 ] && tune "$@" --limit $(( $(left) - 12 )); }
B3='"n_envs":256,"n_steps":50,"batch_size":1280,"n_epochs":4'
( t --name s1 --settings "$S1" --seeds 2 --grid '{"learning_rate":[1e-3,2e-3,4e-3],"ent_coef":[0.02,0.05],"total_timesteps":[2.4e6,4.8e6]}'
  t --name s3_credit --settings "{$B3}" --seeds 2 --grid '{"learning_rate":[4e-3],"ent_coef":[0.03],"gamma":[0.9,0.95,0.97],"gae_lambda":[0.9,0.95,0.98],"total_timesteps":[6.4e6]}'
  t --name s3_ep2 --settings "{$B3,\"n_epochs\":2}" --seeds 2 --grid '{"learning_rate":[4e-3,8e-3],"ent_coef":[0.03],"total_timesteps":[6.4e6,12.8e6]}' ) & a=$!
( t --name s3 --settings "{$B3}" --seeds 2 --grid '{"learning_rate":[2e-3,4e-3,8e-3],"ent_coef":[0.02,0.05],"total_timesteps":[6.4e6,12.8e6]}'
  t --name s3_clip --settings "{$B3}" --seeds 2 --grid '{"learning_rate":[4e-3],"ent_coef":[0.03],"max_grad_norm":[0.5,5],"clip_range":[0.1,0.2,0.3],"total_timesteps":[6.4e6]}' ) & b=$!
( t --name s4 --settings "$S4" --seeds 2 --grid '{"learning_rate":[2e-3,4e-3,8e-3],"ent_coef":[0.02,0.05],"total_timesteps":[20e6]}'
  t --name s3_wide --settings "{$B3,\"hidden\":[64,64]}" --seeds 2 --grid '{"learning_rate":[2e-3,4e-3],"ent_coef":[0.03],"total_timesteps":[6.4e6]}'
  t --name s3_relu --settings "{$B3,\"activation\":\"relu\"}" --seeds 2 --grid '{"learning_rate":[2e-3,4e-3],"ent_coef":[0.03],"total_timesteps":[6.4e6]}' ) & c=$!
( t --name s2 --settings '{"n_envs":256,"n_steps":25,"batch_size":640,"n_epochs":4}' --seeds 2 --grid '{"learning_rate":[2e-3,4e-3],"ent_coef":[0.02,0.05],"total_timesteps":[4.8e6,9.6e6]}'
  t --name s5 --settings '{"n_envs":1024,"n_steps":16,"batch_size":4096,"n_epochs":4}' --seeds 2 --grid '{"learning_rate":[4e-3,8e-3],"ent_coef":[0.02,0.05],"total_timesteps":[30e6]}'
  t --name s3_trunk --settings "{$B3,\"trunk\":\"shared\"}" --seeds 2 --grid '{"learning_rate":[2e-3,4e-3],"ent_coef":[0.03],"vf_coef":[0.5,0.1],"total_timesteps":[6.4e6]}' ) & d=$!
wait $a $b $c $d
say phase 2 over
echo quit | nvidia-cuda-mps-control > /dev/null 2>&1
kill $packer; pack
grep -h "" $W/log.txt
