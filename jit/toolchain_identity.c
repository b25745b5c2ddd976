/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toolchain_identity.c - which file a loaded library is: path, build id, size.
 *
 * Read from memory and from the file's status, never from its name: two
 * versions of NVRTC often have the same name.
 */
#include "jit/toolchain_identity.h"

#include <sys/stat.h>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "proto/error.h"

#define IDENTITY_CHARS 48

/* NULL when unknown. Borrowed. */
static const struct link_map *
identity_map(void *library)
{
	struct link_map *map = NULL;

	if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 ||
	    map->l_name == NULL || map->l_name[0] == 0)
		return NULL;
	return map;
}

const char *
hm_toolchain_identity_path(void *library)
{
	const struct link_map *map = identity_map(library);

	return map == NULL ? NULL : map->l_name;
}

struct identity {
	const struct link_map *map; /* whose build id is wanted */
	char text[IDENTITY_CHARS];
};

/* Walk one note segment of a loaded library for its build id. */
static bool
identity_read_notes(const char *notes, size_t n_notes, char *text_out)
{
	size_t at = 0;

	while (n_notes - at >= sizeof(ElfW(Nhdr))) {
		ElfW(Nhdr) note;
		const unsigned char *id = NULL;
		size_t name_bytes = 0;
		size_t i = 0;

		memcpy(&note, notes + at, sizeof(note));
		at += sizeof(note);
		name_bytes = ((size_t)note.n_namesz + 3) & ~(size_t)3;
		if (name_bytes > n_notes - at ||
		    note.n_descsz > n_notes - at - name_bytes)
			return false;
		id = (const unsigned char *)notes + at + name_bytes;
		if (note.n_type == NT_GNU_BUILD_ID &&
		    note.n_descsz * 2 < IDENTITY_CHARS) {
			for (i = 0; i < note.n_descsz; i++)
				(void)snprintf(text_out + 2 * i, 3, "%02x",
				    id[i]);
			return true;
		}
		at += name_bytes;
		at += ((size_t)note.n_descsz + 3) & ~(size_t)3;
		if (at > n_notes)
			return false;
	}
	return false;
}

static int
identity_on_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct identity *id = arg;
	size_t i = 0;

	(void)size;
	if (info->dlpi_addr != id->map->l_addr)
		return 0;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_NOTE &&
		    identity_read_notes((const char *)id->map->l_addr +
					    segment->p_vaddr,
			segment->p_memsz, id->text))
			break;
	}
	return 1;
}

int
hm_toolchain_identity_text(void *library, char *text_out, size_t size)
{
	struct identity id = {.map = identity_map(library)};
	struct stat status;

	if (id.map == NULL || stat(id.map->l_name, &status) == -1)
		return HM_E_UNAVAILABLE;
	(void)dl_iterate_phdr(identity_on_object, &id);
	(void)snprintf(text_out, size, "%s %lld",
	    id.text[0] == 0 ? "-" : id.text, (long long)status.st_size);
	return HM_OK;
}
