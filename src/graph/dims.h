// The numbers that a step may carry, one line each. graph::Dims, the step as a GPU reads it, the generated code: all are made from
// this list. The text of the shaders begins with it, so it is plain preprocessor.
#define LAPIDARY_DIMS(NUMBER, NUMBERS, REAL, FLAG)                                                    \
  NUMBER(k)              /* input width of a product */                                               \
  NUMBERS(n, 3)          /* output widths; n[0] also the width of norms */                            \
  NUMBER(heads)                                                                                       \
  NUMBER(kv_heads)                                                                                    \
  NUMBER(head_dim)                                                                                    \
  NUMBER(window)         /* attention: 0 = all positions; local_attention, glu_conv: frames seen */    \
  NUMBER(kv_layer)       /* whose K/V */                                                              \
  NUMBER(experts)                                                                                     \
  NUMBER(experts_used)                                                                                \
  NUMBER(offset)         /* linear_gelu_gate: first element of in1 */                                 \
  NUMBER(scaled_output)  /* residual_norm: which output d.scale multiplies */                         \
  NUMBER(channels)       /* conv_norm_relu: results of a band */                                      \
  REAL(scale)                                                                                         \
  REAL(scale2)                                                                                        \
  REAL(epsilon)                                                                                       \
  REAL(cap)              /* local_attention: of the scores */                                         \
  FLAG(owns_kv)                                                                                       \
  FLAG(values_are_keys)                                                                               \
  FLAG(axis_inside)      /* add_positions: the axes of a position lie side by side */
