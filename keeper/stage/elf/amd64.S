# The stage for x86-64 Linux: what becomes the workload, or exits. The whole file is the program: its ELF header is
# written out below, so that it needs no linker script and stays under 1 KiB. Built by `go generate ./keeper/stage`.
#
# In:   fd 3   the gate, one end of a SOCK_SEQPACKET pair
#       fd 4   the executable, or anything when it is executed by its path
#       fd 5   the working directory
#       its own arguments and environment are the workload's
# Gate: "F"             execute fd 4
#       "P" path NUL    execute path
#       "T"             be a custodian, see below
#       end of file, an error or anything else: exit 125
# Out:  on a failure, two 32-bit numbers on the gate: what failed (1 fchdir, 2 exec) and its errno; then exit 126.
#       Nothing on success: the gate is closed by the exec.

	.set PATHMAX, 4096
	.set ACTION, 0			# 32 bytes of zeros: struct sigaction, and a signal set
	.set BUFFER, 32			# what the gate said: a letter, a path, a NUL
	.set FRAME, BUFFER+PATHMAX+32

	.text
	.globl	_start
base:
	.byte	0x7f, 'E', 'L', 'F', 2, 1, 1, 0
	.quad	0
	.short	2, 62			# ET_EXEC, EM_X86_64
	.long	1
	.quad	_start
	.quad	phdr - base
	.quad	0			# no sections
	.long	0
	.short	64, 56, 2, 64, 0, 0
phdr:
	.long	1, 5			# PT_LOAD, read and execute: the whole file
	.quad	0, base, base, end - base, end - base, 0x1000
	.long	0x6474e551, 6		# PT_GNU_STACK, not executable
	.quad	0, 0, 0, 0, 0, 16

_start:
	movq	(%rsp), %rax		# argc
	leaq	8(%rsp), %r12		# argv
	leaq	16(%rsp,%rax,8), %r13	# envp
	subq	$FRAME, %rsp
	xorl	%eax, %eax
	movq	%rax, ACTION(%rsp)
	movq	%rax, ACTION+8(%rsp)
	movq	%rax, ACTION+16(%rsp)
	movq	%rax, ACTION+24(%rsp)

	movl	$157, %eax		# prctl(PR_SET_NAME, name): a dead stage can be told from a dead workload
	movl	$15, %edi
	movl	$name, %esi
	syscall

	movl	$64, %ebx		# every signal back to its default; the two that cannot be changed say EINVAL
1:	movl	$13, %eax		# rt_sigaction(signal, zeros, NULL, 8)
	movl	%ebx, %edi
	leaq	ACTION(%rsp), %rsi
	xorl	%edx, %edx
	movl	$8, %r10d
	syscall
	decl	%ebx
	jnz	1b

	movl	$14, %eax		# rt_sigprocmask(SIG_SETMASK, zeros, NULL, 8)
	movl	$2, %edi
	leaq	ACTION(%rsp), %rsi
	xorl	%edx, %edx
	movl	$8, %r10d
	syscall

	movl	$5, %ebx		# our three are closed by the exec,
2:	movl	$72, %eax		# fcntl(fd, F_SETFD, FD_CLOEXEC)
	movl	%ebx, %edi
	movl	$2, %esi
	movl	$1, %edx
	syscall
	decl	%ebx
	cmpl	$2, %ebx
	jne	2b

	movl	$436, %eax		# and so is all else: close_range(3, all, CLOSE_RANGE_CLOEXEC), Linux 5.11
	movl	$3, %edi
	movl	$-1, %esi
	movl	$4, %edx
	syscall

3:	xorl	%eax, %eax		# read(3, buffer, 1 + PATHMAX)
	movl	$3, %edi
	leaq	BUFFER(%rsp), %rsi
	movl	$PATHMAX+1, %edx
	syscall
	cmpq	$-4, %rax		# EINTR
	je	3b
	testq	%rax, %rax
	jle	abort
	movb	$0, BUFFER(%rsp,%rax)
	cmpb	$'T', BUFFER(%rsp)
	je	custody

	movl	$81, %eax		# fchdir(5)
	movl	$5, %edi
	syscall
	movl	$1, %ebx
	testl	%eax, %eax
	jnz	failed

	movl	$2, %ebx
	movq	%r12, %rdx
	movq	%r13, %r10
	cmpb	$'F', BUFFER(%rsp)
	jne	4f
	movl	$322, %eax		# execveat(4, "", argv, envp, AT_EMPTY_PATH)
	movl	$4, %edi
	leaq	ACTION(%rsp), %rsi
	movl	$0x1000, %r8d
	syscall
	jmp	failed

4:	cmpb	$'P', BUFFER(%rsp)
	jne	abort
	movl	$59, %eax		# execve(path, argv, envp)
	leaq	BUFFER+1(%rsp), %rdi
	movq	%r12, %rsi
	movq	%r13, %rdx
	syscall

failed:
	negl	%eax
	movl	%ebx, BUFFER(%rsp)
	movl	%eax, BUFFER+4(%rsp)
	movl	$1, %eax		# write(3, what and errno, 8)
	movl	$3, %edi
	leaq	BUFFER(%rsp), %rsi
	movl	$8, %edx
	syscall
	movl	$126, %edi
	jmp	exit
abort:
	movl	$125, %edi
exit:
	movl	$231, %eax		# exit_group
	syscall

# A custodian keeps fd 4, the master side of a terminal, for whoever connects to fd 5, a listening SOCK_SEQPACKET socket: each
# is sent the master, and has the custodian to itself until it hangs up; a byte from it ends the custodian. While nobody is
# connected it ends by itself once the terminal was closed everywhere and holds nothing unread.
	.set	LETTER, BUFFER+64	# struct iovec, one byte of whatever
	.set	RIGHTS, BUFFER+80	# struct cmsghdr and the descriptor
custody:
	movl	$157, %eax		# prctl(PR_SET_NAME, custodian)
	movl	$15, %edi
	movl	$custodian, %esi
	syscall

5:	movl	$3, %eax		# close(3): the gate, later a connection
	movl	$3, %edi
	syscall

6:	movl	$5, BUFFER(%rsp)	# ppoll({5, POLLIN; 4, nothing but a hang-up}, 2, NULL, NULL, 8)
	movl	$1, BUFFER+4(%rsp)
	movl	$4, BUFFER+8(%rsp)
	movl	$0, BUFFER+12(%rsp)
	movl	$271, %eax
	leaq	BUFFER(%rsp), %rdi
	movl	$2, %esi
	xorl	%edx, %edx
	xorl	%r10d, %r10d
	movl	$8, %r8d
	syscall
	testl	%eax, %eax
	jle	6b
	testb	$1, BUFFER+6(%rsp)
	jnz	7f
	movl	$1, BUFFER+12(%rsp)	# hung up: ppoll({4, POLLIN}, 1, zeros, NULL, 8)
	movl	$271, %eax
	leaq	BUFFER+8(%rsp), %rdi
	movl	$1, %esi
	leaq	ACTION(%rsp), %rdx
	xorl	%r10d, %r10d
	movl	$8, %r8d
	syscall
	testb	$1, BUFFER+14(%rsp)
	jz	9f

7:	movl	$288, %eax		# accept4(5, NULL, NULL, SOCK_CLOEXEC): it becomes 3, the lowest that is free
	movl	$5, %edi
	xorl	%esi, %esi
	xorl	%edx, %edx
	movl	$0x80000, %r10d
	syscall
	testl	%eax, %eax
	js	6b
	xorl	%eax, %eax		# struct msghdr
	movq	%rax, BUFFER(%rsp)
	movq	%rax, BUFFER+8(%rsp)
	leaq	LETTER(%rsp), %rdi
	movq	%rdi, BUFFER+16(%rsp)
	movq	$1, BUFFER+24(%rsp)
	movq	%rdi, LETTER(%rsp)
	movq	$1, LETTER+8(%rsp)
	leaq	RIGHTS(%rsp), %rdi
	movq	%rdi, BUFFER+32(%rsp)
	movq	$24, BUFFER+40(%rsp)	# CMSG_SPACE of one descriptor
	movq	%rax, BUFFER+48(%rsp)
	movq	$20, RIGHTS(%rsp)	# its CMSG_LEN
	movl	$1, RIGHTS+8(%rsp)	# SOL_SOCKET
	movl	$1, RIGHTS+12(%rsp)	# SCM_RIGHTS
	movl	$4, RIGHTS+16(%rsp)
	movl	$46, %eax		# sendmsg(3, msg, MSG_NOSIGNAL)
	movl	$3, %edi
	leaq	BUFFER(%rsp), %rsi
	movl	$0x4000, %edx
	syscall

8:	xorl	%eax, %eax		# read(3, buffer, 1): a failed sendmsg is an end of file here
	movl	$3, %edi
	leaq	BUFFER(%rsp), %rsi
	movl	$1, %edx
	syscall
	cmpq	$-4, %rax		# EINTR
	je	8b
	cmpq	$1, %rax
	jne	5b
9:	xorl	%edi, %edi
	jmp	exit

name:	.asciz	"reconciler-hold"
custodian:
	.asciz	"reconciler-tty"
end:
