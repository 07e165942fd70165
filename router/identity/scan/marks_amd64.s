#include "textflag.h"

DATA quotes<>+0(SB)/8, $0x2222222222222222
DATA quotes<>+8(SB)/8, $0x2222222222222222
GLOBL quotes<>(SB), RODATA|NOPTR, $16
DATA slashes<>+0(SB)/8, $0x5c5c5c5c5c5c5c5c
DATA slashes<>+8(SB)/8, $0x5c5c5c5c5c5c5c5c
GLOBL slashes<>(SB), RODATA|NOPTR, $16
DATA us<>+0(SB)/8, $0x7575757575757575
DATA us<>+8(SB)/8, $0x7575757575757575
GLOBL us<>(SB), RODATA|NOPTR, $16

// PART compares the 16 bytes at offset at with the three characters and adds
// the outcome, one bit a byte, to R8, R9 and R10.
#define PART(at) \
	MOVOU    at(SI), X3 \
	MOVO     X3, X4     \
	MOVO     X3, X5     \
	PCMPEQB  X0, X3     \
	PCMPEQB  X1, X4     \
	PCMPEQB  X2, X5     \
	PMOVMSKB X3, AX     \
	PMOVMSKB X4, BX     \
	PMOVMSKB X5, CX     \
	SHLQ     $at, AX    \
	SHLQ     $at, BX    \
	SHLQ     $at, CX    \
	ORQ      AX, R8     \
	ORQ      BX, R9     \
	ORQ      CX, R10

// func mark(b *[block]byte, m *marks)
TEXT ·mark(SB), NOSPLIT, $0-16
	MOVQ  b+0(FP), SI
	MOVQ  m+8(FP), DI
	MOVOU quotes<>(SB), X0
	MOVOU slashes<>(SB), X1
	MOVOU us<>(SB), X2
	XORL  R8, R8
	XORL  R9, R9
	XORL  R10, R10
	PART(0)
	PART(16)
	PART(32)
	PART(48)
	MOVQ  R8, 0(DI)
	MOVQ  R9, 8(DI)
	MOVQ  R10, 16(DI)
	RET
