/* gpu.c: has the name of a GPU's driver, and nothing else of it. */
int gpu_driver(void);

int gpu_driver(void)
{
    return 0;
}
