/* copies.h: structs of plugin-api.h as bytes and back. */
#ifndef MPI_COPIES_H
#define MPI_COPIES_H

#include "bytes.h"
#include "plugin-api.h"

/* A device's description, without what names it or says which hardware it is: that holds on its host only. */
void info_add(struct bytes *bytes, const struct engine_device_info *info);
void info_read(struct reader *reader, struct engine_device_info *info);

/* A weight's description without its data. Both texts are copied to `texts`. */
void weight_add(struct bytes *bytes, const struct engine_weight_desc *desc);
void weight_read(struct reader *reader, struct engine_weight_desc *desc, char texts[2][256]);

#endif
