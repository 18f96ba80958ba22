/* iq-grids.h: the grids of the IQ types: which values an index of the file stands for. A grid's entry holds the codes
 * of eight values in two bits each, or of four in three bits each, the first value in the lowest bits; what a code
 * means depends on the type, see type-iq.c. */
#ifndef CPU_IQ_GRIDS_H
#define CPU_IQ_GRIDS_H

#include <stdint.h>

extern const uint16_t iq2_xxs_grid[256]; /* eight values, codes 0 … 2 */
extern const uint16_t iq2_xs_grid[512];
extern const uint16_t iq2_s_grid[1024];
extern const uint16_t iq3_xxs_grid[256]; /* four values, codes 0 … 7 */
extern const uint16_t iq3_s_grid[512];
extern const uint16_t iq1_grid[2048]; /* eight values, codes 0 … 2; IQ1_S and IQ1_M */

#endif
