// The operations of the text model and of its towers. This is their definition: tests/reference/ holds each as naive code in double
// precision, and a backend has one kernel for each; op_table.hpp has what else is known of them. All of them work on rows (tokens) that do not see each other, except
// through the K/V cache.
//
// rms(x) = x * (mean(x^2) + epsilon)^(-1/2); norm(x; w) = rms(x) * w, without w: rms(x).
// gelu(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), silu(x) = x * sigmoid(x).
// The product of a clipped matrix (WeightSlot) with x is clamp(w clamp(x; input_min, input_max); output_min, output_max).
#pragma once

#include <cstdint>

namespace lapidary::graph {

// in, out: the step's buffers in order. w: its weights in order, [rows, cols] for matrices. d: the step's Dims.
enum class Op : std::uint8_t {
  // Writes the row table from the RoundState. In `forward`, row i = position length + i with the bonus token, then the drafts;
  // in `draft`, the one row at position length - 1 with the last draft, or the bonus token before there is one; in `block`, row
  // i = position length + i with the bonus token, then mask tokens, which see from the first position of the drafter's context on;
  // in `catch_up`, the positions from the end of that context to length - 1, and out = in[p % kPendingRows] for each of them.
  round_rows,
  // out[hidden] = table[token] * d.scale; of a soft token row.soft of the chunk's, as it is  w: table [vocab, hidden]
  embed,
  // out[2 hidden] = table[token] * d.scale, then in[hidden]                         w: table [vocab, hidden]
  embed_pair,
  // out[2 * D/2] = cos(position * f_i) for all i, then sin(position * f_i); f = the step's constants [D/2].
  // The angle is the float32 product.
  rope_angles,
  // out[n] = norm(in; w); without w (absent) rms(in)                                w: [n]
  rms_norm,
  // out[n0 + n1 + ...] = the products of in[k] with each of w, one after the other  w: 1 to 3 of [n_i, k]
  linear,
  // out[n] = gelu(w0 in) * (w1 in)                                                  w: gate [n, k], up [n, k]
  linear_gelu_mul,
  // out[n] = gelu(w in0) * in1[d.offset + j]                                        w: [n, k]
  linear_gelu_gate,
  // out[n] = c * tanh((w in) / c), c = d.scale; plain product when c is 0           w: [n, k]
  linear_softcap,
  // in0 = q | k | v of one token (no v when d.values_are_keys; only q when !d.owns_kv), in1 = angles.
  // out[heads * D] = rope(norm(q; w0)) per head. With own K/V, into the cache of layer d.kv_layer at the row's position:
  // K = rope(norm(k; w1)), V = rms(v), where v is the raw k when d.values_are_keys.
  // rope(a)[i] = a[i] cos_i - a[i + D/2] sin_i, rope(a)[i + D/2] = a[i + D/2] cos_i + a[i] sin_i.
  qkv_norm_rope,
  // out[heads * D] = softmax(q . K) V over the visible keys of the cache of layer d.kv_layer; no scale. Key position t is
  // visible to the row at p iff t >= begin(p) and t <= p, or when d.window > 0 t <= block_end(p) and p - t < d.window: only sliding
  // layers look ahead inside an image. Query head n reads K/V head n / (heads / kv_heads).
  attention,
  // h = (h + norm(in1; w0) * d.scale2) * w1, where in0 = out0 = h, in place; without w1 (absent) no factor; d.scale2 0 stands for 1.
  // Then out_i = norm(h; w_(i+1)) for i = 1..3; the one with d.scaled_output = i is also multiplied by d.scale.
  residual_norm,
  // A = in[layers * P] as [layers, P]; out = (norm(A * d.scale; w1) + table[token] * d.scale2) * 2^(-1/2)
  //                                                                                 w: table [vocab, layers * P], [P]
  ple_inputs,
  // z = in[experts]: the d.experts_used largest, ties to the lower id, in descending order.
  // out0[used] = their ids (int32), out1[used] = softmax(z over the picked) * w[id]  w: per-expert scale [experts]
  route,
  // out[used * n]: for each picked expert e (in1 = ids): gelu(w0_e in0) * (w1_e in0)
  expert_gelu_mul,
  // out[used * n]: for each picked expert e (in1 = ids): w_e in0[slot * k ...]
  expert_linear,
  // in: h, dense [n], experts [used * n], expert weights [used]; out0 = h in place.
  // m = sum over slots ascending of weight * expert; y = norm(norm(dense; w0) + norm(m; w1); w2);
  // h = (h + y) * w3; out1 = norm(h; w4) when present.
  moe_combine,
  // out[used] (int32) = the d.experts_used largest of in[experts] by id, ties to the lower one, in descending order
  top,
  // in0[k], in1[used] (int32) = clusters; cluster c has the n tokens order[c * n...]. out1[used * n] (int32) = the tokens of the
  // clusters, out0 = the products of their rows of the table with in0            w: table [vocab, k], order [vocab] (int32)
  cluster_logits,
  // out0[1] (int32) = the token chosen from the logits in[n] as the row's Selection says; without one, the largest, ties
  // to the lower id. out1[n], out2[n] (int32) are room to work in. `in` stays as it is. With in1[n] (int32) the logits are those of
  // these tokens, and `id` below is the place in that list. In this order:
  //   y = in; -inf where suppressed; plus bias; where the token occurred (`counts` and `drafted` of the row), y / repetition
  //   if y > 0, else y * repetition, then minus presence + count * frequency; -inf where the mask has no bit
  //   temperature 0: the largest y, ties to the lower id. Else weight w = exp((y - max y) / temperature)
  //   top-k: the k largest y, ties to the lower id; top-p: in descending order of w, ties to the lower id, the shortest
  //   beginning with sum(w) >= top_p * sum over those left by top-k, at least one; min-p: w >= min_p
  //   the token with the least e / w, ties to the lower id, where e = -ln((noise + 0.5) * 2^-32) is exponential noise
  // noise of token x: word x mod 4 of Philox4x32-10 with the key seed and the counter (index, index >> 32, x / 4, stream),
  // low words first, so it depends on nothing but the request and the place of the token in its output. y, w and e are
  // float32, e is accurate relative to itself and never 0, sums are float64. What is not a number counts as -inf, ids outside
  // of the vocabulary are skipped. Where no y is above -inf: the first token neither suppressed nor masked, else 0.
  sample,
  // drafts[drafted] = in[0] (int32), then drafted + 1, in the RoundState
  keep_draft,
  // in0[1] (int32) = the tokens chosen by the rows, in1[hidden]. Counts how many drafts n are what the row before them chose, up
  // to the first that is not. Then, in the RoundState: accepted = n, bonus = the token chosen by row n, length = its position
  // + 1, emitted + n + 1, drafted = 0; out[hidden] = in1 of row n; the request's counts take in the tokens of rows 0 to n. With the
  // DFlash drafter, out1[p % kPendingRows] = in2 of rows 0 to n, p = their positions.
  accept,

  // Those below are of the DFlash drafter.

  // out[d.offset + j] = in[j] for j < n: the output of a layer that is tapped
  keep_tap,
  // in0 = q | k | v of one row (no q when d.heads is 0), in1 = angles. out[heads * D] = rope(norm(q; w0)) * d.scale per head; into the
  // cache of layer d.kv_layer at the row's position: K = rope(norm(k; w1)), V = v. rope as in qkv_norm_rope.     w: [D], [D]
  block_qkv,
  // out[n] = silu(w0 in) * (w1 in)                                                  w: gate [n, k], up [n, k]
  linear_silu_mul,
  // drafts[i] = in[0] (int32) of row i + 1 of the block, drafted = their number, in the RoundState
  keep_block,

  // Those below are of towers. The rows of a step are those of its results; x and y are column and row of a patch.

  // out[n] = in * d.scale + d.scale2
  scale_shift,
  // h = h + table(0, x) + table(1, y), where in0 = out0 = h, in place. table(axis, p) = w[axis * positions + p], or
  // w[p * 2 + axis] when d.axis_inside                                              w: table [2 positions, n]
  add_positions,
  // out[D]: the first half cos(x f_i) for i < D/4, then cos(y f_i), the second half their sines; f = the step's constants [D/4].
  // The angle is the float32 product.
  grid_angles,
  // in0 = q | k | v of one patch, in1 = angles [D]; out = the same, normed and rotated: rope2d(norm(q; w0)), rope2d(norm(k; w1)), rms(v)
  // per head. rope2d rotates the first half of a head by x and the second by y, each by itself: in a half of H = D/2 elements,
  // a[i] cos_i - a[i + H/2] sin_i and a[i + H/2] cos_i + a[i] sin_i.                w: [D], [D]
  qkv_grid_rope,
  // in = q | k | v of all rows; out[heads * D] = softmax(q . K) V over all rows, no scale
  attention_all,
  // The mean of d.window x d.window neighbouring patches, times d.scale; then, with w, (that - w0) * w1. in has a row for each patch,
  // out one for each cell, row by row                                               w: [n], [n]
  pool,
  // out[n] = layer_norm(in; w0) + w1, where layer_norm(x; w) = (x - mean) * (mean((x - mean)^2) + epsilon)^(-1/2) * w    w: [n], [n]
  layer_norm,
  // out[n] = w0 in + w1                                                             w: [n, k], [n]
  linear_bias,
  // out[n] = silu(w in)                                                             w: [n, k]
  linear_silu,
  // A convolution of 3 x 3 over frames and bands, of every second of each, with zeros around. C = d.channels results of a band lie side
  // by side: n = bands/2 * C, k = bands * inputs. Row t, band f: y_c = sum of w0[dt][df][i][c] * in[2t + dt - 1][2f + df - 1][i];
  // out = relu(layer_norm(y; w1))                                                   w: kernel [9 inputs, C], [C]
  conv_norm_relu,
  // out[k]: sin(distance * f_i) for all i, then cos(distance * f_i); f = the step's constants [k/2]. The angle is the float32 product.
  distance_waves,
  // in0 = q | k | v of all frames, in1 = r [heads * D] by distance; D = head_dim. With s = d.scale * softplus(w) and distance e from 0
  // to the smaller of t and d.window - 1: z_e = cap * tanh((q_t * s . (k_(t-e) * d.scale2 + r_e)) / cap); cap = d.cap
  // out[heads * D] of frame t = softmax(z) v                                        w: [D]
  local_attention,
  // in[2n] = a | b. g = a * sigmoid(b); y_t[c] = sum over j < d.window of w0[j][c] * g_(t - d.window + 1 + j)[c], zeros before the first frame;
  // out[n] = silu(norm(y; w1))                                                      w: kernel [d.window, n], [n]
  glu_conv,
  // h = h + in1, where in0 = out0 = h, in place; then out1 = norm(h; w) when present. The DFlash drafter has it too
  add_norm,
};

}  // namespace lapidary::graph
