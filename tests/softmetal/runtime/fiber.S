// Fibers. One that does not run has its frame pointer and the place where it goes on at the top of its stack. What else it
// needs, its own code has put away: softmetal_park preserves nothing (the compiler's preserve_none).
//
//   void softmetal_park(Lane*)                   lets another lane go on; returns when this one does
//   void softmetal_enter(void** save, void* to)  leaves a thread of the host for a fiber, until one goes to *save
//   void softmetal_leave(void* to)               goes on with another fiber and never returns
    .text
    .globl softmetal_park
    .globl softmetal_enter
    .globl softmetal_leave
    .hidden softmetal_next

#if defined(__aarch64__)
    .type softmetal_park, %function
    .p2align 4
softmetal_park:                     // the lane is in x20
    stp x29, x30, [sp, #-16]!
    mov x0, x20
    mov x1, sp
    bl softmetal_next
    mov sp, x0
    ldp x29, x30, [sp], #16
    br x30                          // not ret: all lanes go on at one place, which the branch predictor learns
    .size softmetal_park, .-softmetal_park

    .type softmetal_enter, %function
    .p2align 4
softmetal_enter:
    stp x29, x30, [sp, #-160]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    adr x9, 1f
    stp x29, x9, [sp, #-16]!
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x29, x30, [sp], #16
    br x30
1:  ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x29, x30, [sp], #160
    ret
    .size softmetal_enter, .-softmetal_enter

    .type softmetal_leave, %function
    .p2align 4
softmetal_leave:
    mov sp, x0
    ldp x29, x30, [sp], #16
    br x30
    .size softmetal_leave, .-softmetal_leave

#elif defined(__x86_64__)
    .type softmetal_park, @function
    .p2align 4
softmetal_park:                     // the lane is in r12
    pushq %rbp
    movq %r12, %rdi
    movq %rsp, %rsi
    call softmetal_next
    movq %rax, %rsp
    popq %rbp
    popq %rcx
    jmp *%rcx
    .size softmetal_park, .-softmetal_park

    .type softmetal_enter, @function
    .p2align 4
softmetal_enter:
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    leaq 1f(%rip), %rcx
    pushq %rcx
    pushq %rbp
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %rbp
    popq %rcx
    jmp *%rcx
1:  popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    ret
    .size softmetal_enter, .-softmetal_enter

    .type softmetal_leave, @function
    .p2align 4
softmetal_leave:
    movq %rdi, %rsp
    popq %rbp
    popq %rcx
    jmp *%rcx
    .size softmetal_leave, .-softmetal_leave

#else
#error "fibers are written for aarch64 and x86_64"
#endif
    .section .note.GNU-stack,"",%progbits
