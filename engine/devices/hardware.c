/* hardware.c: see hardware.h. */
#include "devices/hardware.h"

#include <string.h>
#include <strings.h>

struct hardware hardware_of(const struct engine_device_info *info)
{
    struct hardware hardware = {.rank = info->rank};
    memcpy(hardware.pci_address, info->pci_address, sizeof hardware.pci_address - 1);
    memcpy(hardware.uuid, info->uuid, sizeof hardware.uuid);
    return hardware;
}

/* Addresses first: some drivers give all cards of one kind the same uuid. */
bool hardware_same(const struct hardware *a, const struct hardware *b)
{
    static const uint8_t unknown[sizeof a->uuid];
    if (a->pci_address[0] && b->pci_address[0]) return strcasecmp(a->pci_address, b->pci_address) == 0;
    return memcmp(a->uuid, unknown, sizeof unknown) != 0 && memcmp(a->uuid, b->uuid, sizeof unknown) == 0;
}
