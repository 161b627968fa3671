// The stage for 64-bit ARM Linux; amd64.S says what it does. Built by `go generate ./keeper/stage`.

	.set PATHMAX, 4096
	.set ACTION, 0			// 32 bytes of zeros: struct sigaction, and a signal set
	.set BUFFER, 32			// what the gate said: a letter, a path, a NUL
	.set FRAME, BUFFER+PATHMAX+32

	.text
	.globl	_start
base:
	.byte	0x7f, 'E', 'L', 'F', 2, 1, 1, 0
	.quad	0
	.hword	2, 183			// ET_EXEC, EM_AARCH64
	.word	1
	.quad	_start
	.quad	phdr - base
	.quad	0			// no sections
	.word	0
	.hword	64, 56, 2, 64, 0, 0
phdr:
	.word	1, 5			// PT_LOAD, read and execute: the whole file; pages may be 64 KiB
	.quad	0, base, base, end - base, end - base, 0x10000
	.word	0x6474e551, 6		// PT_GNU_STACK, not executable
	.quad	0, 0, 0, 0, 0, 16

_start:
	ldr	x20, [sp]		// argc
	add	x21, sp, #8		// argv
	add	x22, x21, x20, lsl #3
	add	x22, x22, #8		// envp
	sub	sp, sp, #(FRAME & 0xff0)
	sub	sp, sp, #(FRAME & 0xfff000)
	stp	xzr, xzr, [sp, #ACTION]
	stp	xzr, xzr, [sp, #ACTION+16]

	mov	x8, #167		// prctl(PR_SET_NAME, name)
	mov	x0, #15
	adr	x1, name
	svc	#0

	mov	x19, #64
1:	mov	x8, #134		// rt_sigaction(signal, zeros, NULL, 8)
	mov	x0, x19
	add	x1, sp, #ACTION
	mov	x2, #0
	mov	x3, #8
	svc	#0
	subs	x19, x19, #1
	b.ne	1b

	mov	x8, #135		// rt_sigprocmask(SIG_SETMASK, zeros, NULL, 8)
	mov	x0, #2
	add	x1, sp, #ACTION
	mov	x2, #0
	mov	x3, #8
	svc	#0

	mov	x19, #5
2:	mov	x8, #25			// fcntl(fd, F_SETFD, FD_CLOEXEC)
	mov	x0, x19
	mov	x1, #2
	mov	x2, #1
	svc	#0
	sub	x19, x19, #1
	cmp	x19, #2
	b.ne	2b

	mov	x8, #436		// close_range(3, all, CLOSE_RANGE_CLOEXEC)
	mov	x0, #3
	mov	w1, #-1
	mov	x2, #4
	svc	#0

3:	mov	x8, #63			// read(3, buffer, 1 + PATHMAX)
	mov	x0, #3
	add	x1, sp, #BUFFER
	mov	x2, #PATHMAX+1
	svc	#0
	cmn	x0, #4			// EINTR
	b.eq	3b
	cmp	x0, #0
	b.le	abort
	add	x1, sp, #BUFFER
	strb	wzr, [x1, x0]
	ldrb	w9, [sp, #BUFFER]
	cmp	w9, #'T'
	b.eq	custody

	mov	x8, #50			// fchdir(5)
	mov	x0, #5
	svc	#0
	mov	w19, #1
	cbnz	w0, failed

	mov	w19, #2
	ldrb	w9, [sp, #BUFFER]
	cmp	w9, #'F'
	b.ne	4f
	mov	x8, #281		// execveat(4, "", argv, envp, AT_EMPTY_PATH)
	mov	x0, #4
	add	x1, sp, #ACTION
	mov	x2, x21
	mov	x3, x22
	mov	x4, #0x1000
	svc	#0
	b	failed

4:	cmp	w9, #'P'
	b.ne	abort
	mov	x8, #221		// execve(path, argv, envp)
	add	x0, sp, #BUFFER+1
	mov	x1, x21
	mov	x2, x22
	svc	#0

failed:
	neg	w0, w0
	stp	w19, w0, [sp, #BUFFER]
	mov	x8, #64			// write(3, what and errno, 8)
	mov	x0, #3
	add	x1, sp, #BUFFER
	mov	x2, #8
	svc	#0
	mov	x0, #126
	b	exit
abort:
	mov	x0, #125
exit:
	mov	x8, #94			// exit_group
	svc	#0

	.set	LETTER, BUFFER+64	// struct iovec, one byte of whatever
	.set	RIGHTS, BUFFER+80	// struct cmsghdr and the descriptor
custody:
	mov	x8, #167		// prctl(PR_SET_NAME, custodian)
	mov	x0, #15
	adr	x1, custodian
	svc	#0

5:	mov	x8, #57			// close(3)
	mov	x0, #3
	svc	#0

6:	mov	w9, #5			// ppoll({5, POLLIN; 4, nothing but a hang-up}, 2, NULL, NULL, 8)
	mov	w10, #1
	stp	w9, w10, [sp, #BUFFER]
	mov	w9, #4
	stp	w9, wzr, [sp, #BUFFER+8]
	mov	x8, #73
	add	x0, sp, #BUFFER
	mov	x1, #2
	mov	x2, #0
	mov	x3, #0
	mov	x4, #8
	svc	#0
	cmp	w0, #0
	b.le	6b
	ldrh	w9, [sp, #BUFFER+6]
	tbnz	w9, #0, 7f
	mov	w10, #1			// hung up: ppoll({4, POLLIN}, 1, zeros, NULL, 8)
	str	w10, [sp, #BUFFER+12]
	mov	x8, #73
	add	x0, sp, #BUFFER+8
	mov	x1, #1
	add	x2, sp, #ACTION
	mov	x3, #0
	mov	x4, #8
	svc	#0
	ldrh	w9, [sp, #BUFFER+14]
	tbz	w9, #0, 9f

7:	mov	x8, #242		// accept4(5, NULL, NULL, SOCK_CLOEXEC)
	mov	x0, #5
	mov	x1, #0
	mov	x2, #0
	mov	x3, #0x80000
	svc	#0
	tbnz	w0, #31, 6b
	stp	xzr, xzr, [sp, #BUFFER]	// struct msghdr
	mov	x10, #1
	add	x9, sp, #LETTER
	stp	x9, x10, [sp, #BUFFER+16]
	stp	x9, x10, [sp, #LETTER]
	add	x9, sp, #RIGHTS
	mov	x11, #24		// CMSG_SPACE of one descriptor
	stp	x9, x11, [sp, #BUFFER+32]
	str	xzr, [sp, #BUFFER+48]
	mov	x11, #20		// its CMSG_LEN
	str	x11, [sp, #RIGHTS]
	stp	w10, w10, [sp, #RIGHTS+8]
	mov	w9, #4
	str	w9, [sp, #RIGHTS+16]
	mov	x8, #211		// sendmsg(3, msg, MSG_NOSIGNAL)
	mov	x0, #3
	add	x1, sp, #BUFFER
	mov	x2, #0x4000
	svc	#0

8:	mov	x8, #63			// read(3, buffer, 1)
	mov	x0, #3
	add	x1, sp, #BUFFER
	mov	x2, #1
	svc	#0
	cmn	x0, #4			// EINTR
	b.eq	8b
	cmp	x0, #1
	b.ne	5b
9:	mov	x0, #0
	b	exit

name:	.asciz	"reconciler-hold"
custodian:
	.asciz	"reconciler-tty"
end:
