/* identity.h: how GPU plugins identify a device's hardware. */
#ifndef GPU_IDENTITY_H
#define GPU_IDENTITY_H

#include <stdint.h>
#include <stdio.h>

#define GPU_PCI_ADDRESS 24 /* bytes, as in struct engine_device_info */

static inline void gpu_pci_address(char text[GPU_PCI_ADDRESS], uint32_t domain, uint32_t bus, uint32_t device,
                                   uint32_t function)
{
    snprintf(text, GPU_PCI_ADDRESS, "%04x:%02x:%02x.%x", domain, bus & 0xff, device & 0xff, function & 0xf);
}

#endif
