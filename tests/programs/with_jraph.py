"""jraph: a graph network and attention over a graph of fixed size."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jraph
import numpy as np

MANIFESTS = {
    "graphs": """
        [entry_points.network]
        function = "with_jraph:network"
        inputs.graph = { like = "with_jraph:graph" }

        [entry_points.attention]
        function = "with_jraph:attention"
        inputs.graph = { like = "with_jraph:graph" }
    """,
}


def graph_of(rng):
    return jraph.GraphsTuple(
        nodes=rng.normal(size=(6, 4)).astype(np.float32),
        edges=rng.normal(size=(9, 3)).astype(np.float32),
        senders=rng.integers(0, 6, 9).astype(np.int32),
        receivers=rng.integers(0, 6, 9).astype(np.int32),
        globals=rng.normal(size=(2, 2)).astype(np.float32),
        n_node=np.array([4, 2], np.int32),
        n_edge=np.array([5, 4], np.int32),
    )


def graph():
    return graph_of(np.random.default_rng(0))


def network(graph):
    def mixed(*parts):
        return jnp.tanh(jnp.concatenate(parts, -1))

    net = jraph.GraphNetwork(update_edge_fn=mixed, update_node_fn=mixed, update_global_fn=mixed)
    return net(graph)


def fresh_network(rng):
    return {"graph": graph_of(rng)}


def attention(graph):
    weights = jax.random.normal(jax.random.key(0), (4, 4))
    net = jraph.GAT(
        attention_query_fn=lambda nodes: nodes @ weights,
        attention_logit_fn=lambda s, r, e: jnp.sum(s * r, -1, keepdims=True),
        node_update_fn=None,
    )
    return net(graph).nodes


fresh_attention = fresh_network
