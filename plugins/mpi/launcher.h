/* launcher.h: the process that started this one, where it is Open MPI's. */
#ifndef MPI_LAUNCHER_H
#define MPI_LAUNCHER_H

/* This process gives the run up. mpirun ends the others, but it waits without end for those on machines that
 * it can't reach any more, and its daemon there waits for mpirun. So some seconds after this process has
 * ended, what is left of the launcher here is ended too. Does nothing where the parent isn't Open MPI's. */
void launcher_end_later(void);

#endif
