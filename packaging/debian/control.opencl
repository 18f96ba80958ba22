
Package: engine-backend-opencl
Architecture: any
Multi-Arch: same
Depends: ocl-icd-libopencl1 | libopencl1, ${shlibs:Depends}, ${misc:Depends}
Recommends: pocl-opencl-icd | opencl-icd
Enhances: engine
Description: runs language models on any OpenCL device
 A plugin for engine, which uses it once it is installed. It runs models, or
 some of their layers, on whatever has a driver for OpenCL 1.2 or later.
