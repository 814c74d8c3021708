/* The version of gordian, in a note of each library that gordian loads into jobs: `gordian doctor`
   compares it with its own. No code, and nothing that a program could link to. */
	.section .note.gordian, "a", @note
	.balign 4
	.long 2f - 1f
	.long 4f - 3f
	.long 1
1:	.asciz "gordian"
2:	.balign 4
3:	.asciz GORDIAN_VERSION_STRING
4:	.balign 4
	.section .note.GNU-stack, "", @progbits
