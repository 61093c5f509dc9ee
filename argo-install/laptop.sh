#!/usr/bin/env bash
# laptop.sh up      brings up a cluster of one node with Argo, MLflow, S3, the store and our templates; again: only what is missing
# laptop.sh down    ends the cluster; the store's folder stays. Of `current` it deletes the namespaces argo and argosy, and asks before
# laptop.sh forward keeps http://localhost:2746 (Argo) and http://localhost:5000 (MLflow) open until Ctrl-C
# laptop.sh render  prints what `up` applies
#   ARGOSY_STORE   the store's folder on this machine (default ~/.local/share/argosy)
#   ARGOSY_CLUSTER kind, k3d, or current: the cluster of the kubeconfig, which has the images and /var/lib/argosy of uid 1000
#   ARGOSY_WAIT    how long `up` waits for each deployment (default 300s)
#   ARGOSY_CONTEXT with down and current: the context whose namespaces are meant, instead of the question
set -euo pipefail
cd "$(dirname "$0")"
store=${ARGOSY_STORE:-$HOME/.local/share/argosy}
images=(argosy-data:latest argosy-train:latest argosy-mlflow:latest)

say() { echo "argosy: $*" >&2; }
fail() { say "$*"; exit 2; }
has() { command -v "$1" >/dev/null 2>&1; }

choose() {
    if [ -n "${ARGOSY_CLUSTER:-}" ]; then echo "$ARGOSY_CLUSTER"
    elif has kind; then echo kind
    elif has k3d; then echo k3d
    else fail "needs kind or k3d (https://kind.sigs.k8s.io, https://k3d.io), or ARGOSY_CLUSTER=current for the kubeconfig's cluster"
    fi
}

cluster() {
    case $1 in
    kind) kind get clusters 2>/dev/null | grep -qx argosy || sed "s|STORE|$store|" kind.yaml | kind create cluster --wait 120s --config -
          kind export kubeconfig --name argosy ;;
    k3d) k3d cluster list argosy >/dev/null 2>&1 || k3d cluster create argosy --no-lb --volume "$store:/var/lib/argosy@server:0"
         k3d kubeconfig merge argosy --kubeconfig-switch-context >/dev/null ;;
    current) say "using $(kubectl config current-context)" ;;
    *) fail "ARGOSY_CLUSTER is '$1', allowed: kind, k3d, current" ;;
    esac
}

node() { # the container that is the node
    case $1 in kind) echo argosy-control-plane ;; k3d) echo k3d-argosy-server-0 ;; esac
}

load_images() {
    local image name
    for image in "${images[@]}"; do
        name=${image#argosy-} name=${name%:*}
        docker image inspect "$image" >/dev/null 2>&1 ||
            make -C .. images IMAGES="$name" BUILDER=docker
    done
    case $1 in
    kind) kind load docker-image --name argosy "${images[@]}" ;;
    k3d) k3d image import --cluster argosy "${images[@]}" ;;
    esac
}

secret() { # S3's keys: made once, known to nobody else
    kubectl -n argosy get secret argosy-s3 >/dev/null 2>&1 && return
    kubectl -n argosy create secret generic argosy-s3 \
        --from-literal=access-key=argosy --from-literal=secret-key="$(head -c 24 /dev/urandom | base64 | tr -d '/+=')"
}

up() {
    local kind each
    has kubectl || fail "needs kubectl 1.31 or newer"
    kind=$(choose)
    mkdir -p "$store"
    cluster "$kind"
    if [ "$kind" != current ]; then
        docker exec "$(node "$kind")" install -d -o 1000 -g 1000 /var/lib/argosy /var/lib/argosy/runs # pods are uid 1000
        load_images "$kind"
    fi
    kubectl get namespace argosy >/dev/null 2>&1 || kubectl create namespace argosy
    secret
    # The CRDs first: the templates are of kinds that they define. Server-side, since they are too large for annotations.
    render | kubectl apply --server-side --force-conflicts -f - || {
        kubectl wait --for condition=established --timeout=120s crd/workflowtemplates.argoproj.io crd/cronworkflows.argoproj.io
        render | kubectl apply --server-side --force-conflicts -f -
    }
    for each in argo/workflow-controller argo/argo-server argosy/mlflow argosy/s3 argosy/argosy-reconciler; do
        kubectl -n "${each%/*}" rollout status "deployment/${each#*/}" --timeout="${ARGOSY_WAIT:-300s}" ||
            { why "${each%/*}" "${each#*/}"; fail "$each did not come up: fix what is named above, then run this again"; }
    done
    say "ready. argo-install/laptop.sh forward, then http://localhost:2746 (Argo) and http://localhost:5000 (MLflow)"
    say "argosy submit --preset tiny, or: argo submit -n argosy --from workflowtemplate/lifecycle -p preset=tiny"
}

why() { # NAMESPACE DEPLOYMENT: each of its pods that is not ready, with the reason of the scheduler, the kubelet or its end
    local pods reason='{range .items[*]}{.metadata.name}{"\t"}{.status.phase}{"\t"}{.status.conditions[?(@.type=="PodScheduled")].message}{range .status.containerStatuses[?(@.ready==false)]} {.image}: {.state.waiting.reason} {.state.waiting.message} {.lastState.terminated.reason} {.lastState.terminated.message}{end}{"\n"}{end}'
    pods=$(kubectl -n "$1" get pods -l "$(kubectl -n "$1" get deployment "$2" -o go-template='{{$c := ""}}{{range $k, $v := .spec.selector.matchLabels}}{{$c}}{{$k}}={{$v}}{{$c = ","}}{{end}}')" -o jsonpath="$reason" || true)
    say "deployment $2 of namespace $1:" "${pods:-it has no pods; kubectl -n $1 describe replicaset says why}"
}

sure() { # of a cluster that is somebody's, and may be another one than was meant
    local answer=${ARGOSY_CONTEXT:-}
    if [ -z "$answer" ]; then
        say "this deletes the namespaces argo and argosy, and all that is in them, of the cluster $1."
        printf 'argosy: type the name of its context to go on: ' >&2
        read -r answer || true
    fi
    [ "$answer" = "$1" ] || fail "nothing was deleted: '$answer' is not '$1'"
}

down() {
    local kind
    kind=$(choose)
    case $kind in
    kind) kind delete cluster --name argosy ;;
    k3d) k3d cluster delete argosy ;;
    current) # not the CRDs: others' workflows would go with them
        sure "$(kubectl config current-context)"
        kubectl delete --ignore-not-found namespace/argosy namespace/argo priorityclass/workflow-controller \
            validatingadmissionpolicybinding/argosy-pods validatingadmissionpolicy/argosy-pods \
            validatingadmissionpolicybinding/argosy-rolls validatingadmissionpolicy/argosy-rolls ;;
    esac
    [ "$kind" = current ] || say "the store is still in $store"
}

render() { kubectl kustomize "${ARGOSY_OVERLAY:-overlays/laptop}"; }

forward() {
    trap 'kill $(jobs -p) 2>/dev/null' EXIT
    keep_open argo argo-server 2746 &
    keep_open argosy mlflow 5000 &
    wait
}

keep_open() { # NAMESPACE SERVICE PORT: kubectl ends when its pod goes or one connection breaks, so it is started again
    local child=
    trap 'kill "$child" 2>/dev/null; exit' TERM
    while :; do
        kubectl -n "$1" port-forward "service/$2" "$3:$3" &
        child=$!
        wait "$child" || sleep 1
    done
}

case ${1:-} in
up | down | forward | render) "$1" ;;
*) sed -n '2,10s/^# //p' laptop.sh >&2; exit 2 ;;
esac
