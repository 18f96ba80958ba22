/* identity.c: which hardware a device is, by the extensions that say so. */
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "device.h"

/* Of cl_ext.h, which not every installation has in full. */
#define DEVICE_UUID     0x106a /* CL_DEVICE_UUID_KHR */
#define DEVICE_PCI      0x410f /* CL_DEVICE_PCI_BUS_INFO_KHR: domain, bus, device, function */
#define DEVICE_TOPOLOGY 0x4037 /* CL_DEVICE_TOPOLOGY_AMD */

/* The address from AMD's own extension, which has no domain: if the address exists in several domains, it
 * stays unknown. */
static void find_amd_address(struct listed_device *device)
{
    struct {
        uint32_t type;
        uint8_t unused[17], bus, device, function;
    } place = {0};
    char pattern[64], address[GPU_PCI_ADDRESS];
    glob_t found = {0};
    if (cl.clGetDeviceInfo(device->handle, DEVICE_TOPOLOGY, sizeof place, &place, NULL) != CL_SUCCESS ||
        place.type != 1)
        return;
    gpu_pci_address(address, 0, place.bus, place.device, place.function);
    snprintf(pattern, sizeof pattern, "/sys/bus/pci/devices/*%s", strchr(address, ':'));
    if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1)
        snprintf(device->pci_address, sizeof device->pci_address, "%.23s",
                 strrchr(found.gl_pathv[0], '/') + 1);
    globfree(&found);
}

void find_identity(struct listed_device *device)
{
    cl_device_id handle = device->handle;
    uint32_t pci[4];
    if (!has_extension(handle, "cl_khr_device_uuid") ||
        cl.clGetDeviceInfo(handle, DEVICE_UUID, sizeof device->uuid, device->uuid, NULL) != CL_SUCCESS)
        memset(device->uuid, 0, sizeof device->uuid);
    if (has_extension(handle, "cl_khr_pci_bus_info") &&
        cl.clGetDeviceInfo(handle, DEVICE_PCI, sizeof pci, pci, NULL) == CL_SUCCESS)
        gpu_pci_address(device->pci_address, pci[0], pci[1], pci[2], pci[3]);
    else if (has_extension(handle, "cl_amd_device_attribute_query"))
        find_amd_address(device);
}
