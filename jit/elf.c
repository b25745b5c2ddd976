/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf.c - is this a CUDA ELF for this target, with this entry?
 *
 * The bytes come from a worker that has parsed a stranger's source, so nothing
 * in them is believed: headers are copied out (no alignment is assumed), and
 * every offset, size, link and string is checked against the image before use.
 *
 * How the target is written down, read off NVRTC 12.8, 13.0 and 13.5 for
 * sm_75 to sm_121a:
 *
 *   EI_OSABI  EI_ABIVERSION  e_flags           written by
 *   0x33      7              bits 0-7 SM,      12.8 up to sm_90a
 *                            0x800 = "a"
 *   0x41      8              bits 8-15 SM,     12.8 from sm_100, 13.x always
 *                            0x8 = "a" (12.8; 13.x leaves it clear)
 *
 * With the second layout the suffix is exact only in .note.nv.tkinfo, which
 * holds the options of ptxas as text ("-v  -arch sm_100f "). Where there is no
 * such note, the "a" bit of e_flags has to agree with the suffix.
 */
#include "jit/job.h"

#include <elf.h>
#include <string.h>

#include "jit/spec.h"

#define ELF_MACHINE_CUDA 190
#define ELF_OSABI_V1     0x33
#define ELF_OSABI_V2     0x41
#define ELF_V1_SUFFIX    0x800u
#define ELF_V2_SUFFIX    0x8u
/* st_other of a kernel, as against a device function. */
#define ELF_OTHER_ENTRY 0x10

struct elf_view {
	const uint8_t *bytes; /* borrowed */
	size_t n_bytes;
	Elf64_Ehdr header;
	Elf64_Shdr names; /* section .shstrtab */
};

static bool
elf_in_bounds(const struct elf_view *elf, uint64_t offset, uint64_t size)
{
	return offset <= elf->n_bytes && size <= elf->n_bytes - offset;
}

/* The index has been checked against e_shnum, the table against the image. */
static void
elf_section(const struct elf_view *elf, uint32_t index, Elf64_Shdr *section_out)
{
	memcpy(section_out,
	    elf->bytes + elf->header.e_shoff + index * sizeof(Elf64_Shdr),
	    sizeof(*section_out));
}

static const uint8_t *
elf_content(const struct elf_view *elf, const Elf64_Shdr *section)
{
	return elf->bytes + section->sh_offset;
}

/* A string of a string table, or NULL when it does not end inside it. */
static const char *
elf_string(const struct elf_view *elf, const Elf64_Shdr *table, uint64_t at)
{
	const uint8_t *text = NULL;

	if (table->sh_type != SHT_STRTAB || at >= table->sh_size)
		return NULL;
	text = elf_content(elf, table) + at;
	if (memchr(text, 0, table->sh_size - at) == NULL)
		return NULL;
	return (const char *)text;
}

/* Every section and every segment lies inside the image. */
static bool
elf_tables_are_inside(const struct elf_view *elf)
{
	const Elf64_Ehdr *header = &elf->header;
	Elf64_Shdr section;
	Elf64_Phdr segment;
	uint32_t i = 0;

	if (header->e_shentsize != sizeof(section) || header->e_shnum == 0 ||
	    header->e_shstrndx >= header->e_shnum ||
	    !elf_in_bounds(elf, header->e_shoff,
		(uint64_t)header->e_shnum * sizeof(section)))
		return false;
	for (i = 0; i < header->e_shnum; i++) {
		elf_section(elf, i, &section);
		if (section.sh_type != SHT_NOBITS &&
		    !elf_in_bounds(elf, section.sh_offset, section.sh_size))
			return false;
	}
	if (header->e_phnum == 0)
		return true;
	if (header->e_phentsize != sizeof(segment) ||
	    !elf_in_bounds(elf, header->e_phoff,
		(uint64_t)header->e_phnum * sizeof(segment)))
		return false;
	for (i = 0; i < header->e_phnum; i++) {
		memcpy(&segment,
		    elf->bytes + header->e_phoff + i * sizeof(segment),
		    sizeof(segment));
		if (!elf_in_bounds(elf, segment.p_offset, segment.p_filesz))
			return false;
	}
	return true;
}

/* Returns why this is not a CUDA ELF of sane geometry, or NULL. */
static const char *
elf_open(const void *image, size_t n_image, struct elf_view *elf_out)
{
	struct elf_view elf = {.bytes = image, .n_bytes = n_image};
	const Elf64_Ehdr *header = &elf.header;

	if (image == NULL || n_image < sizeof(elf.header))
		return "shorter than an ELF header";
	memcpy(&elf.header, image, sizeof(elf.header));
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
	    header->e_ident[EI_CLASS] != ELFCLASS64 ||
	    header->e_ident[EI_DATA] != ELFDATA2LSB)
		return "not a 64-bit little-endian ELF";
	if (header->e_machine != ELF_MACHINE_CUDA)
		return "not an ELF for CUDA";
	if (header->e_ehsize != sizeof(elf.header))
		return "the ELF header has an unknown size";
	if (!elf_tables_are_inside(&elf))
		return "a section or segment lies outside the image";
	elf_section(&elf, header->e_shstrndx, &elf.names);
	if (elf.names.sh_type != SHT_STRTAB)
		return "the section names are not a string table";
	*elf_out = elf;
	return NULL;
}

/* Index of the section of this name; 0, which no such section has, if none. */
static uint32_t
elf_find_section(const struct elf_view *elf, const char *prefix,
    const char *rest, Elf64_Shdr *section_out)
{
	const size_t n_prefix = strlen(prefix);
	uint32_t i = 0;

	for (i = 1; i < elf->header.e_shnum; i++) {
		Elf64_Shdr section;
		const char *name = NULL;

		elf_section(elf, i, &section);
		name = elf_string(elf, &elf->names, section.sh_name);
		if (name != NULL && strncmp(name, prefix, n_prefix) == 0 &&
		    strcmp(name + n_prefix, rest) == 0) {
			*section_out = section;
			return i;
		}
	}
	return 0;
}

/* Find a short text in a section that need not hold any. */
static const uint8_t *
elf_find_text(const uint8_t *bytes, size_t n_bytes, const char *text)
{
	return n_bytes == 0 ? NULL : memmem(bytes, n_bytes, text, strlen(text));
}

/* The target as ptxas was given it. False if the image does not say. */
static bool
elf_noted_target(const struct elf_view *elf, struct hm_target *target_out)
{
	static const char option[] = "-arch sm_";
	const uint8_t *at = NULL;
	const uint8_t *end = NULL;
	Elf64_Shdr note;
	char text[8] = "";
	size_t n_text = 0;

	if (elf_find_section(elf, ".note.nv.tkinfo", "", &note) == 0 ||
	    note.sh_type != SHT_NOTE)
		return false;
	end = elf_content(elf, &note) + note.sh_size;
	at = elf_find_text(elf_content(elf, &note), note.sh_size, option);
	if (at == NULL)
		return false;
	at += sizeof(option) - 1;
	while (at + n_text < end && n_text < sizeof(text) - 1 &&
	       at[n_text] != ' ' && at[n_text] != 0) {
		text[n_text] = (char)at[n_text];
		n_text++;
	}
	return hm_target_parse(text, target_out, NULL) == HM_OK;
}

static bool
elf_target_is(const struct elf_view *elf, const struct hm_target *target)
{
	const uint32_t flags = elf->header.e_flags;
	struct hm_target noted = {0};
	uint32_t cc = 0;
	bool suffix = false;

	switch (elf->header.e_ident[EI_OSABI]) {
	case ELF_OSABI_V1:
		cc = flags & 0xffu;
		suffix = (flags & ELF_V1_SUFFIX) != 0;
		break;
	case ELF_OSABI_V2:
		cc = flags >> 8 & 0xffu;
		suffix = (flags & ELF_V2_SUFFIX) != 0;
		break;
	default:
		return false;
	}
	if (cc != target->cc)
		return false;
	if (elf_noted_target(elf, &noted))
		return noted.cc == target->cc && noted.suffix == target->suffix;
	return suffix == (target->suffix != 0);
}

/* Whether a symbol table names the entry as a kernel of that section. */
static bool
elf_has_symbol(const struct elf_view *elf, uint32_t text_index,
    const Elf64_Shdr *text, const char *entry)
{
	Elf64_Shdr table;
	Elf64_Shdr strings;
	uint64_t i = 0;

	if (elf_find_section(elf, ".symtab", "", &table) == 0 ||
	    table.sh_type != SHT_SYMTAB ||
	    table.sh_entsize != sizeof(Elf64_Sym) ||
	    table.sh_link >= elf->header.e_shnum)
		return false;
	elf_section(elf, table.sh_link, &strings);
	for (i = 0; i < table.sh_size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym symbol;
		const char *name = NULL;

		memcpy(&symbol, elf_content(elf, &table) + i * sizeof(symbol),
		    sizeof(symbol));
		if (symbol.st_shndx != text_index ||
		    ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
		    ELF64_ST_BIND(symbol.st_info) == STB_LOCAL ||
		    (symbol.st_other & ELF_OTHER_ENTRY) == 0)
			continue;
		name = elf_string(elf, &strings, symbol.st_name);
		if (name != NULL && strcmp(name, entry) == 0)
			return symbol.st_value <= text->sh_size &&
			       symbol.st_size <=
				   text->sh_size - symbol.st_value;
	}
	return false;
}

static bool
elf_has_entry(const struct elf_view *elf, const char *entry)
{
	Elf64_Shdr text;
	uint32_t index = 0;

	index = elf_find_section(elf, ".text.", entry, &text);
	return index != 0 && text.sh_type == SHT_PROGBITS && text.sh_size > 0 &&
	       elf_has_symbol(elf, index, &text, entry);
}

int
hm_elf_check(const void *image, size_t n_image, const struct hm_target *target,
    const char *entry, struct hm_errbuf *errbuf)
{
	struct elf_view elf;
	const char *reason = NULL;
	char name[16];

	reason = elf_open(image, n_image, &elf);
	if (reason != NULL) {
		hm_errbuf_set(errbuf, "%s", reason);
		return HM_E_CORRUPT;
	}
	if (!elf_target_is(&elf, target)) {
		hm_target_print(target, name);
		hm_errbuf_set(errbuf, "the image is not for %s", name);
		return HM_E_CORRUPT;
	}
	if (entry != NULL && !elf_has_entry(&elf, entry)) {
		hm_errbuf_set(errbuf, "the image has no kernel %s", entry);
		return HM_E_CORRUPT;
	}
	return HM_OK;
}
